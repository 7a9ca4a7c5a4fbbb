package domain

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/beevik/etree"
)

const (
	schedulerWhy = "The scheduler of threads is set when the VM starts."

	vcpuScheduler     = "scheduler"
	iothreadScheduler = "iothread_scheduler"
	emulatorScheduler = "emulator_scheduler"
	// maxPriority is Linux's highest priority of the real-time schedulers.
	maxPriority = 99
)

// schedulerTypes are Linux's schedulers other than the usual one. realTime are those with priorities.
var (
	schedulerTypes = []string{"batch", "idle", "fifo", "rr"}
	realTime       = []string{"fifo", "rr"}
)

const schedulerTypeDoc = "`fifo` and `rr` run before ordinary threads (real-time), `idle` only when nothing else " +
	"does. `batch` is for background work."

// schedulers are how Linux schedules the threads of the VM on its host.
var schedulers = []Attribute{
	threadScheduler(vcpuScheduler, "vcpusched", "vcpus", "virtual CPUs, by the number of the virtual CPU", "0"),
	threadScheduler(iothreadScheduler, "iothreadsched", "iothreads", "I/O threads, by the number of the thread", "1"),
	{
		Name: emulatorScheduler + ".type", Values: schedulerTypes, Unset: None, Why: schedulerWhy, Since: "5.3.0",
		Read: func(e *etree.Element) string { return textAt(e, "cputune/emulatorsched@scheduler") },
		Write: func(e *etree.Element, value string) error {
			if tune := child(e, "cputune"); value == "" { // Without a scheduler, the rest of the element has no meaning.
				dropChildren(tune, "emulatorsched")
				dropEmpty(tune, e)
			}
			setTextAt(e, "cputune/emulatorsched@scheduler", value)
			return nil
		},
		Doc: schedulerTypeDoc + " `none` removes it.",
	},
	{
		Name: emulatorScheduler + ".priority", Place: "cputune/emulatorsched@priority", Kind: Count, Zero: true,
		Why: schedulerWhy, Check: between(1, maxPriority), Follows: emulatorScheduler + ".type", Since: "5.3.0",
		Doc: "Required for `fifo` and `rr`: priority from 1 to 99.",
	},
}

func init() {
	NestedDocs["cpu."+emulatorScheduler] = "Scheduler of the host for QEMU's own threads."
}

// schedulerColumns are what a thread's scheduler consists of.
var schedulerColumns = []Attribute{
	{
		Name: "type", Place: "@scheduler", Values: schedulerTypes,
		Doc: "Required: how the threads are scheduled. " + schedulerTypeDoc,
	},
	{
		Name: "priority", Place: "@priority", Kind: Count, Check: between(1, maxPriority),
		Doc: "Required for `fifo` and `rr`: priority from 1 to 99.",
	},
}

// threadScheduler returns the attribute for the schedulers of a kind of threads. An element may be for several
// threads, which it lists in the attribute key. libvirt 9.0 writes one for each.
func threadScheduler(name, tag, key, threads, first string) Attribute {
	return Attribute{
		Name: name, Kind: Table, Columns: schedulerColumns, Why: schedulerWhy,
		Read: func(e *etree.Element) string {
			all := map[string]Row{}
			for _, one := range children(child(e, "cputune"), tag) {
				set, _ := parseSet(attr(one, key))
				for _, thread := range set {
					all[strconv.Itoa(thread)] = schedulerOf(one)
				}
			}
			return FormatTable(all)
		},
		Write: func(e *etree.Element, value string) error { return writeSchedulers(e, tag, key, ParseTable(value)) },
		Check: func(value string) string {
			all := ParseTable(value)
			for _, thread := range sortedKeys(all) {
				if problem := wrongScheduler(all[thread]["type"], all[thread]["priority"]); problem != "" {
					return thread + ": " + problem
				}
			}
			return ""
		},
		Doc: "Scheduler of the host for " + threads + ": `{ " + first + " = { type = \"fifo\", priority = 1 } }`. If you " +
			"set the map, list every thread that has one. `{}` removes them.",
	}
}

func schedulerOf(e *etree.Element) Row {
	row := Row{}
	rows(schedulerColumns).read(e, Values(row))
	return row
}

// writeSchedulers gives threads their schedulers. Elements of threads whose scheduler stays are kept.
func writeSchedulers(e *etree.Element, tag, key string, all map[string]Row) error {
	tune := child(e, "cputune")
	if len(all) > 0 {
		tune = ensure(e, "cputune", "vcpus", "vcpu")
	}
	for _, one := range children(tune, tag) {
		keepThreads(one, key, func(thread int) bool {
			want, there := all[strconv.Itoa(thread)]
			stays := there && FormatTexts(want) == FormatTexts(schedulerOf(one))
			if stays {
				delete(all, strconv.Itoa(thread))
			}
			return stays
		})
	}
	for _, thread := range sortedKeys(all) {
		one := element(tag, key, thread)
		insert(tune, one, tag)
		if err := rows(schedulerColumns).apply(one, "", Values(all[thread])); err != nil {
			return err
		}
	}
	dropEmpty(tune, e)
	return nil
}

// wrongScheduler says what is wrong with a scheduler, "" if nothing is.
func wrongScheduler(kind, priority string) string {
	switch {
	case kind == "" || kind == None:
		if priority != "" {
			return "A priority needs a type."
		}
		if kind == "" {
			return "It needs a type."
		}
	case slices.Contains(realTime, kind) && priority == "":
		return "The type " + kind + " needs a priority."
	case !slices.Contains(realTime, kind) && priority != "":
		return "Only the types fifo and rr have a priority."
	}
	return ""
}

// checkThreads checks what is declared of the VM's threads.
func checkThreads(value func(attribute string) string) (attribute, problem string) {
	kind, priority := value(emulatorScheduler+".type"), value(emulatorScheduler+".priority")
	if priority == "0" {
		priority = ""
	}
	if kind+priority != "" {
		if problem := wrongScheduler(kind, priority); problem != "" {
			return emulatorScheduler + ".priority", problem
		}
	}
	return checkResctrl(value)
}

// validateThreads checks which VM can have parts of caches.
func validateThreads(s Spec, c *checker) {
	for _, name := range []string{cacheTune, memoryTune} {
		c.require(s.Values[join("cpu", name)] == "" || s.Type != "qemu", join("cpu", name),
			`Only a VM of type "kvm" can have it.`)
	}
}

// LackingThreads returns a problem for each tuned thread that the VM doesn't have. An existing VM may have more threads
// than are declared, and I/O threads with other numbers. running is what the VM has if it runs, and nil if it doesn't.
func (s Spec) LackingThreads(isNew bool, running *CPU) []Problem {
	var c checker
	vcpus, known := s.CPU.MaxVCPUs(), isNew || s.CPU.MaxSockets != nil && s.CPU.Cores != nil && s.CPU.Threads != nil
	if running != nil {
		if to, err := planTopology(*running, s.CPU); err == nil {
			vcpus, known = to.max, true
		}
	}
	has := func(path, thread string, n, first, most int) {
		problem := fmt.Sprintf("There is no %s %d: the VM has %d to %d.", thread, n, first, first+most-1)
		if most == 0 {
			problem = "The VM has no " + thread + "."
		}
		c.require(n >= first && n < first+most, path, problem)
	}
	if known {
		for _, name := range []string{vcpuScheduler, cacheTune, memoryTune} {
			path := join("cpu", name)
			for _, key := range sortedKeys(ParseTable(s.Values[path])) {
				set, _ := parseSet(key)
				for _, n := range set[max(len(set)-1, 0):] {
					has(path, "virtual CPU", n, 0, vcpus)
				}
			}
		}
		for _, key := range sortedKeys(ParseTexts(s.Values[cpuPin])) {
			n, _ := number(key)
			has(cpuPin, "virtual CPU", n, 0, vcpus)
		}
	}
	if count, declared := s.Values[iothreadCount]; declared || isNew {
		most, _ := number(count)
		for _, key := range sortedKeys(ParseTexts(s.Values[iothreadPin])) {
			n, _ := number(key)
			has(iothreadPin, "I/O thread", n, 1, most)
		}
		for _, key := range sortedKeys(s.Disks) {
			if n, _ := number(s.Disks[key].Values["iothread"]); n > 0 {
				has("disks."+key+".iothread", "I/O thread", n, 1, most)
			}
		}
		for _, key := range sortedKeys(ParseTable(s.Values["cpu."+iothreadScheduler])) {
			n, _ := number(key)
			has("cpu."+iothreadScheduler, "I/O thread", n, 1, most)
		}
	}
	return c.problems
}
