package domain

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/beevik/etree"
)

const (
	resctrlWhy = "The virtual CPUs are put into their resctrl group when the VM starts."

	cacheTune  = "cachetune"
	memoryTune = "memorytune"
)

// resctrl are the parts of the host's caches and of its memory bandwidth that virtual CPUs may use.
var resctrl = []Attribute{
	{
		Name: cacheTune, Place: "cputune/cachetune@vcpus", Kind: Table, Why: resctrlWhy, Since: "4.1.0", Key: canonicalSet,
		Columns: []Attribute{
			{
				Name: "caches", Kind: Texts, Read: readCaches, Write: writeCaches, Normal: normalSizes, Check: cacheSizes,
				Doc: "Sizes of the parts by the level of the cache and its number on the host: `{ \"l3/0\" = \"3Mi\" }`. On " +
					"hosts that separate code and data (CDP): `l3_code/0` and `l3_data/0`.",
			},
			resctrlMonitors("level", "3", "Sets of these virtual CPUs whose use of the L3 cache libvirt counts."),
		},
		Check: func(value string) string { return emptyRow(ParseTable(value), "a cache or monitors") },
		Doc: "Parts of the host's caches (resctrl, type `kvm`) for sets of virtual CPUs that don't overlap, such as `0-1`. " +
			"It requires a host that can allocate them. If you set the map, list every set. `{}` removes them.",
	},
	{
		Name: memoryTune, Place: "cputune/memorytune@vcpus", Kind: Table, Why: resctrlWhy, Since: "4.7.0",
		Key: canonicalSet, Columns: []Attribute{
			{
				Name: "bandwidth", Place: "node@id@bandwidth", Kind: Texts, Check: percents,
				Doc: "Percent of the memory bandwidth, at most, by the number of the host's memory controller: `{ 0 = \"60\" }`.",
			},
			resctrlMonitors("", "", "Sets of these virtual CPUs whose use of the memory bandwidth libvirt counts."),
		},
		Check: func(value string) string { return emptyRow(ParseTable(value), "bandwidth or monitors") },
		Doc: "Limits of memory bandwidth (resctrl, type `kvm`) for sets of virtual CPUs that don't overlap. It requires a " +
			"host that can allocate them. If you set the map, list every set. `{}` removes them.",
	},
}

// CacheName returns the name of the parts of caches of a level that are for "both", "code" or "data": "l3_code".
func CacheName(level, kind string) string {
	if kind == "both" {
		return "l" + level
	}
	return "l" + level + "_" + kind
}

// cacheKey matches the key of a part of a cache.
var cacheKey = regexp.MustCompile(`^l([1-9])(?:_(code|data))?/([0-9]+)$`)

// keyOfCache returns the key of the part of a cache that an element is for.
func keyOfCache(e *etree.Element) string {
	return CacheName(attr(e, "level"), attr(e, "type")) + "/" + attr(e, "id")
}

func readCaches(e *etree.Element) string {
	sizes := map[string]string{}
	for _, cache := range children(e, "cache") {
		if bytes, ok := parseSize(attr(cache, "size"), attr(cache, "unit")); ok {
			sizes[keyOfCache(cache)] = formatPage(bytes)
		}
	}
	return FormatTexts(sizes)
}

func writeCaches(e *etree.Element, value string) error {
	sizes, there := ParseTexts(value), map[string]*etree.Element{}
	for _, cache := range children(e, "cache") {
		key := keyOfCache(cache)
		if there[key] = cache; sizes[key] == "" {
			drop(cache)
		}
	}
	for _, key := range sortedKeys(sizes) {
		cache := there[key]
		if cache == nil {
			parts := cacheKey.FindStringSubmatch(key)
			if parts == nil {
				return errors.New(cacheSizes(value))
			}
			cache = element("cache", "id", parts[3], "level", parts[1], "type", cmp.Or(parts[2], "both"))
			insert(e, cache, "cache")
		}
		bytes, _ := pageSize(sizes[key])
		setAttr(cache, "size", strconv.FormatUint(bytes/kib, 10))
		setAttr(cache, "unit", "KiB")
	}
	return nil
}

// resctrlMonitors returns the column for what libvirt counts. Each monitor has an attribute with that value.
func resctrlMonitors(key, value, doc string) Attribute {
	return Attribute{
		Name: "monitors", Kind: Words, Doc: doc,
		Normal: func(value string) string {
			sets := ParseWords(value)
			for i := range sets {
				sets[i] = normalSet(sets[i])
			}
			slices.Sort(sets)
			return FormatWords(sets)
		},
		Read: func(e *etree.Element) string {
			var sets []string
			for _, monitor := range children(e, "monitor") {
				sets = append(sets, attr(monitor, "vcpus"))
			}
			return FormatWords(sets)
		},
		Write: func(e *etree.Element, words string) error {
			dropChildren(e, "monitor")
			for _, set := range ParseWords(words) {
				add(e, "monitor", key, value, "vcpus", set)
			}
			return nil
		},
		Check: func(value string) string {
			for _, set := range ParseWords(value) {
				if wrong := cpuSet(set); wrong != "" {
					return wrong
				}
			}
			return ""
		},
	}
}

// canonicalSet checks the key of a row that is for a set of virtual CPUs.
func canonicalSet(key string) string {
	if wrong := cpuSet(key); wrong != "" {
		return wrong
	}
	if normal := normalSet(key); normal != key {
		return fmt.Sprintf("Write the key %q as %q, as libvirt does.", key, normal)
	}
	return ""
}

func normalSizes(value string) string { return mapTexts(value, normalPages) }

// cacheSizes checks the keys of parts of caches and their sizes.
func cacheSizes(value string) string {
	sizes := ParseTexts(value)
	for _, key := range sortedKeys(sizes) {
		parts := cacheKey.FindStringSubmatch(key)
		if parts == nil {
			return fmt.Sprintf("%q isn't a cache of the host such as \"l3/0\" or \"l3_code/0\".", key)
		}
		if _, ok := pageSize(sizes[key]); !ok {
			return fmt.Sprintf("%q isn't a size such as \"3Mi\".", sizes[key])
		}
		if both := CacheName(parts[1], "both") + "/" + parts[3]; parts[2] != "" && sizes[both] != "" {
			return fmt.Sprintf("%q is for code and data already, so there is no %q.", both, key)
		}
	}
	return ""
}

// percents checks the numbers of memory controllers and the shares.
func percents(value string) string {
	for id, percent := range ParseTexts(value) {
		if _, ok := number(id); !ok {
			return fmt.Sprintf("%q isn't the number of a memory controller.", id)
		}
		if wrong := between(1, 100)(percent); wrong != "" {
			return wrong
		}
	}
	return ""
}

// emptyRow names a row without columns, which libvirt would drop.
func emptyRow(all map[string]Row, what string) string {
	for _, key := range sortedKeys(all) {
		if len(all[key]) == 0 {
			return fmt.Sprintf("%q needs %s.", key, what)
		}
	}
	return ""
}

// checkResctrl checks that sets of virtual CPUs don't overlap, and that monitors are inside of their set.
func checkResctrl(value func(attribute string) string) (attribute, problem string) {
	taken := map[int]string{}
	for _, name := range []string{cacheTune, memoryTune} {
		all := ParseTable(value(name))
		for _, key := range sortedKeys(all) {
			set, _ := parseSet(key)
			for _, cpu := range set {
				if other := taken[cpu]; other != "" && other != key {
					return name, fmt.Sprintf("The sets %q and %q overlap.", other, key)
				}
				taken[cpu] = key
			}
			if problem := wrongMonitors(ParseWords(all[key]["monitors"]), key); problem != "" {
				return name, problem
			}
		}
	}
	return "", ""
}

// wrongMonitors says what is wrong with the monitors of a set of virtual CPUs, "" if nothing is. Only a monitor of the
// whole set may overlap with others.
func wrongMonitors(monitors []string, key string) string {
	set, _ := parseSet(key)
	monitorOf := map[int]string{}
	for i, monitor := range monitors {
		counted, _ := parseSet(monitor)
		if slices.ContainsFunc(counted, func(cpu int) bool { return !slices.Contains(set, cpu) }) {
			return fmt.Sprintf("The monitor of %q isn't inside of %q.", monitor, key)
		}
		if slices.Contains(monitors[:i], monitor) {
			return fmt.Sprintf("There are two monitors of %q.", monitor)
		}
		if monitor == key {
			continue
		}
		for _, cpu := range counted {
			if other := monitorOf[cpu]; other != "" {
				return fmt.Sprintf("The monitors of %q and %q overlap.", other, monitor)
			}
			monitorOf[cpu] = monitor
		}
	}
	return ""
}

// hostPartition is a cache or a node of memory that a host may be able to allocate in parts. needs is the feature of
// the CPU that this requires.
type hostPartition struct{ kind, id, name, needs string }

// lackingResctrl returns the parts of caches and of the memory bandwidth that the host can't allocate.
func (f Values) lackingResctrl(h HostTopology) []Problem {
	if h.Allocations == nil {
		return nil
	}
	var problems []Problem
	lacks := func(name, cpus string, p hostPartition) {
		there := h.Allocations[p.kind]
		if n, _ := number(p.id); slices.Contains(there, n) {
			return
		}
		why := "that needs a CPU with " + p.needs + ", and resctrl mounted before libvirt starts"
		if len(there) > 0 {
			why = "it can allocate only " + formatSet(slices.Clone(there))
		}
		problems = append(problems, Problem{
			join("cpu", name), fmt.Sprintf("can't allocate %s %s to the virtual CPUs %s: %s", p.name, p.id, cpus, why),
		})
	}
	parts := ParseTable(f["cpu."+cacheTune])
	for _, key := range sortedKeys(parts) {
		for _, cache := range sortedKeys(ParseTexts(parts[key]["caches"])) {
			kind, id, _ := strings.Cut(cache, "/")
			level, half, separate := strings.Cut(kind, "_")
			p := hostPartition{kind: kind, id: id, name: strings.ToUpper(level) + " cache", needs: "CAT"}
			if separate {
				p.name, p.needs = p.name+" for "+half, "CDP"
			}
			lacks(cacheTune, key, p)
		}
	}
	shares := ParseTable(f["cpu."+memoryTune])
	for _, key := range sortedKeys(shares) {
		for _, id := range sortedKeys(ParseTexts(shares[key]["bandwidth"])) {
			lacks(memoryTune, key, hostPartition{kind: MemoryBandwidth, id: id, name: "memory bandwidth", needs: "MBA"})
		}
	}
	return problems
}
