package domain

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/beevik/etree"
)

const (
	// cpuFeatures is the path of the features.
	cpuFeatures = "cpu.features"
	// cpuPin is the path of the attribute that pins virtual CPUs to CPUs of the host.
	cpuPin = "cpu.pin"
)

// featurePolicies are the policies of a CPU feature.
var featurePolicies = []string{"require", "disable", "optional", "force", "forbid"}

// cpuGroup are the attributes of the virtual CPUs that each have one place in the definition.
var cpuGroup = Group{
	Path: "cpu", Block: true,
	Doc:   "Virtual CPUs.",
	Check: checkThreads,
	Attributes: slices.Concat([]Attribute{
		{
			Name: "features", Place: "cpu/feature@name@policy", Kind: Texts, Met: featuresMet,
			Why: "A guest keeps the CPU that it started with.",
			Check: func(value string) string {
				for name, policy := range ParseTexts(value) {
					if name == "" || !slices.Contains(featurePolicies, policy) {
						return fmt.Sprintf("%q of feature %q isn't one of require, disable, optional, force, forbid.", policy, name)
					}
				}
				return ""
			},
			Doc: "Features by name, each with `require`, `disable`, `optional`, `force` or `forbid`, in addition to " +
				"the features of the mode or model. `{}` removes them.",
		},
		{
			Name: "dies", Kind: Count, Since: "6.1.0",
			Why:  "The topology of the virtual CPUs is fixed when the VM starts.",
			Read: func(e *etree.Element) string { return attr(child(e, "cpu", "topology"), "dies") }, Write: writeDies,
			Check:      between(1, maxVCPUs),
			DefaultDoc: "`1`",
			Doc:        "Number of dies per socket. They share the `cores` of the socket.",
		},
		{
			Name: "migratable", Place: "cpu@migratable", Kind: Switch, On: "on", Off: "off", Echo: true,
			Why:        "A guest keeps the CPU that it started with.",
			DefaultDoc: "libvirt's, which is `true`",
			Doc: "Whether the modes `host-passthrough` and `maximum` leave out features with which a VM can't be moved. " +
				"The hosts must still have the same CPU.",
		},
		numaCells,
		{
			Name: "shares", Place: "cputune/shares", Kind: Count, Zero: true, Live: SetScheduler, Check: between(1, 262144),
			RestartRequired: cantBeUndone, Why: "The weight is set in the running VM.",
			Doc: "Weight compared with other VMs of the host: from 2 to 262144 with cgroup v1 there, from 1 to 10000 with v2; " +
				"`0`: the host's default.",
		},
		schedulerPeriod("period", "`quota`"),
		schedulerQuota("quota", "each virtual CPU", "period"),
		schedulerPeriod("global_period", "`global_quota`"),
		schedulerQuota("global_quota", "the whole VM", "global_period"),
		schedulerPeriod("emulator_period", "`emulator_quota`"),
		schedulerQuota("emulator_quota", "QEMU's own threads", "emulator_period"),
		schedulerPeriod("iothread_period", "`iothread_quota`"),
		schedulerQuota("iothread_quota", "each I/O thread", "iothread_period"),
		pins("a virtual CPU", Attribute{
			Name: "pin", Place: "cputune/vcpupin@vcpu@cpuset", Live: PinVcpus,
			Why: "The virtual CPUs of the running VM are pinned.",
			Doc: "CPUs of the host that virtual CPUs run on, by the number of the virtual CPU: `{ 0 = \"2-3\" }`.",
		}),
		iothreadPins(),
		{
			Name: "emulator_pin", Place: "cputune/emulatorpin@cpuset", Normal: normalSet, Live: PinEmulator, Check: cpuSet,
			RestartRequired: cantBeUndone, Why: "The emulator of the running VM is pinned.",
			Doc: "CPUs of the host that QEMU's own threads run on, such as `0-1`. `\"\"` removes it.",
		},
	}, schedulers, resctrl),
}

// schedulerPeriod returns the attribute for the period of a quota.
func schedulerPeriod(name, quota string) Attribute {
	return Attribute{
		Name: name, Place: "cputune/" + name, Kind: Count, Zero: true, Live: SetScheduler, Check: between(1000, 1000000),
		Reset: "100000", Why: "The period is set in the running VM.",
		Doc: "Period of " + quota + " in microseconds; `0`: 100000.", DefaultDoc: "`0`",
	}
}

// schedulerQuota returns the attribute for how long threads may run in a period.
func schedulerQuota(name, what, period string) Attribute {
	return Attribute{
		Name: name, Place: "cputune/" + name, Kind: Count, Zero: true, Live: SetScheduler, Reset: "-1", Normal: limitOrNone,
		Check: func(value string) string {
			if n, _ := strconv.Atoi(value); n >= 1000 {
				return ""
			}
			return "It isn't a number from 1000."
		},
		Why: "The quota is set in the running VM.",
		Doc: "Microseconds that " + what + " may run in each `" + period + "`; `0`: no limit.",
	}
}

// iothreadPins returns the attribute for the host CPUs that I/O threads run on. An I/O thread that is removed takes its
// pin with it. Threads are removed only if their number changes: until then they may have any numbers.
func iothreadPins() Attribute {
	a := pins("an I/O thread", Attribute{
		Name: "iothread_pin", Place: "cputune/iothreadpin@iothread@cpuset", Live: PinIOThreads,
		Why: "The I/O threads of the running VM are pinned.",
		Doc: "CPUs of the host that I/O threads run on, by the number of the thread: `{ 1 = \"0-1\" }`.",
	})
	a.Left = func(vm Spec, have string, want Spec) string {
		count, declared := want.Values[iothreadCount]
		if !declared || count == vm.Values[iothreadCount] {
			return have
		}
		left := ParseTexts(have)
		maps.DeleteFunc(left, func(thread, _ string) bool {
			id, _ := number(thread)
			return count == "" || id > countOrOne(count)
		})
		return FormatTexts(left)
	}
	return a
}

// pins completes the attribute for the host CPUs that threads of a kind run on.
func pins(thread string, a Attribute) Attribute {
	a.Kind, a.Normal = Texts, normalPins
	a.RestartRequired = func(_ Spec, have, want string) string {
		now := ParseTexts(want)
		for one := range ParseTexts(have) {
			if now[one] == "" {
				return "A running thread can be pinned to other CPUs, but not unpinned."
			}
		}
		return ""
	}
	a.Check = func(value string) string {
		for one, set := range ParseTexts(value) {
			if _, ok := number(one); !ok {
				return fmt.Sprintf("%q isn't the number of %s.", one, thread)
			}
			if wrong := cpuSet(set); wrong != "" {
				return wrong
			}
		}
		return ""
	}
	a.Doc += " Only a host that has them is chosen. `{}` removes them."
	return a
}

func cantBeUndone(_ Spec, _, want string) string {
	if want == "" {
		return "The value can be changed in a running VM, but not removed."
	}
	return ""
}

// limitOrNone returns "" for libvirt's two ways to say that there is no limit.
func limitOrNone(value string) string {
	if n, err := strconv.ParseInt(value, 10, 64); err == nil && (n < 0 || n >= 17592186044415) {
		return ""
	}
	return value
}

// cpuSet checks a set of CPUs.
func cpuSet(value string) string {
	if set, ok := parseSet(value); ok && len(set) > 0 {
		return ""
	}
	return fmt.Sprintf("%q isn't a set of CPUs such as \"0-3,6\".", value)
}

func normalSet(value string) string {
	if set, ok := parseSet(value); ok && len(set) > 0 {
		return formatSet(set)
	}
	return value
}

func normalPins(value string) string { return mapTexts(value, normalSet) }

// featuresMet reports whether the CPU that libvirt expanded agrees with the declared features.
func featuresMet(have Spec, want string) bool {
	if have.CPU.Expanded == nil {
		return false
	}
	runs := ParseTexts(have.Values[cpuFeatures])
	for name, policy := range ParseTexts(want) {
		on := runs[name] == "require" || runs[name] == "force"
		switch policy {
		case "require", "force":
			if !on && runs[name] != "" {
				return false
			}
		case "disable", "forbid":
			if on {
				return false
			}
		}
	}
	return true
}

// alignFeatures replaces the features of a running VM, which libvirt has expanded to a list of its own, by the
// requested ones.
func alignFeatures(live *Spec, persistent Spec) {
	values := maps.Clone(live.Values)
	delete(values, cpuFeatures)
	if asked, ok := persistent.Values[cpuFeatures]; ok {
		values[cpuFeatures] = asked
	}
	live.Values = values
}

// writeDies divides the cores of a socket among its dies.
func writeDies(root *etree.Element, value string) error {
	if value == "" {
		return nil
	}
	cpu := ensure(root, "cpu", "features", "os")
	topology := child(cpu, "topology")
	if topology == nil {
		topology = ensure(cpu, "topology", "vendor", "model")
		setAttr(topology, "sockets", strconv.Itoa(countOrOne(text(child(root, "vcpu")))))
		setAttr(topology, "cores", "1")
		setAttr(topology, "threads", "1")
	}
	cores, dies := coresPerSocket(topology), countOrOne(value)
	clusters := countOrOne(attr(topology, "clusters"))
	if cores%(dies*clusters) != 0 {
		return errors.New("the " + strconv.Itoa(cores) + " cores of a socket can't be divided among them: declare cpu.cores")
	}
	setAttr(topology, "dies", value)
	setAttr(topology, "cores", strconv.Itoa(cores/dies/clusters))
	return nil
}
