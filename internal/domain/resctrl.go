package domain

import (
	"fmt"
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
		Columns: slices.Concat(cacheColumns("l3"), cacheColumns("l2"), []Attribute{
			resctrlMonitors("level", "3", "Sets of these virtual CPUs whose use of the L3 cache libvirt counts."),
		}),
		Check: func(value string) string { return emptyRow(ParseTable(value), "a cache or monitors") },
		Doc: "Parts of the host's caches (resctrl) that virtual CPUs have for themselves, by sets of virtual CPUs that " +
			"don't overlap: `{ \"0-1\" = { l3 = { 0 = \"3Mi\" } } }`. Only a host that can allocate them is chosen. If you set " +
			"the map, list every set. `{}` removes them.",
	},
	{
		Name: memoryTune, Place: "cputune/memorytune@vcpus", Kind: Table, Why: resctrlWhy, Since: "4.7.0",
		Key: canonicalSet, Columns: []Attribute{
			{
				Name: "bandwidth", Place: "node@id@bandwidth", Kind: Texts, Check: percents,
				Doc: "Percent of the memory bandwidth by the number of the host's memory controller: `{ 0 = \"60\" }`.",
			},
			resctrlMonitors("", "", "Sets of these virtual CPUs whose use of the memory bandwidth libvirt counts. "+
				"Requires libvirt 6.0.0."),
		},
		Check: func(value string) string { return emptyRow(ParseTable(value), "bandwidth or monitors") },
		Doc: "Shares of the host's memory bandwidth (resctrl), by sets of virtual CPUs that don't overlap. A set may be " +
			"that of an entry of `cachetune`. Only a host that can allocate them is chosen. If you set the map, list " +
			"every set. `{}` removes them.",
	},
}

// CacheColumn returns the column of cpu.cachetune for the parts of a cache that are for "both", "code" or "data".
func CacheColumn(level int, kind string) string {
	if kind == "both" {
		return fmt.Sprintf("l%d", level)
	}
	return fmt.Sprintf("l%d_%s", level, kind)
}

// cacheColumns are what a set of virtual CPUs has of the caches of a level.
func cacheColumns(level string) []Attribute {
	var all []Attribute
	for _, part := range []struct{ kind, name, doc string }{
		{"both", level, "Size"},
		{"code", level + "_code", "Size for code, on hosts that separate code and data (CDP),"},
		{"data", level + "_data", "Size for data, on hosts that separate code and data (CDP),"},
	} {
		all = append(all, Attribute{
			Name: part.name, Kind: Texts, Normal: normalSizes, Check: cacheSizes,
			Read: func(e *etree.Element) string {
				sizes := map[string]string{}
				for _, cache := range caches(e, level, part.kind) {
					if bytes, ok := parseSize(attr(cache, "size"), attr(cache, "unit")); ok {
						sizes[attr(cache, "id")] = FormatSize(bytes)
					}
				}
				return FormatTexts(sizes)
			},
			Write: func(e *etree.Element, value string) error {
				for _, cache := range caches(e, level, part.kind) {
					drop(cache)
				}
				sizes := ParseTexts(value)
				for _, id := range sortedKeys(sizes) {
					bytes, _ := pageSize(sizes[id])
					insert(e, element("cache", "id", id, "level", level[1:], "type", part.kind,
						"size", strconv.FormatUint(bytes/kib, 10), "unit", "KiB"), "cache")
				}
				return nil
			},
			Doc: part.doc + " of the part of the " + strings.ToUpper(level) + " cache, by the number of the cache on " +
				"the host.",
		})
	}
	return all
}

// caches returns the elements for the parts of caches of a level and a kind.
func caches(e *etree.Element, level, kind string) []*etree.Element {
	return slices.DeleteFunc(children(e, "cache"), func(cache *etree.Element) bool {
		return attr(cache, "level") != level[1:] || attr(cache, "type") != kind
	})
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

func normalSizes(value string) string {
	sizes := ParseTexts(value)
	for id, size := range sizes {
		if bytes, ok := pageSize(size); ok {
			sizes[id] = FormatSize(bytes)
		}
	}
	return FormatTexts(sizes)
}

// cacheSizes checks the numbers of caches and sizes.
func cacheSizes(value string) string {
	for id, size := range ParseTexts(value) {
		if _, ok := number(id); !ok {
			return fmt.Sprintf("%q isn't the number of a cache.", id)
		}
		if _, ok := pageSize(size); !ok {
			return fmt.Sprintf("%q isn't a size such as \"3Mi\".", size)
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

// checkResctrl checks that sets of virtual CPUs don't overlap, that monitors are inside of their set, and that no part
// of a cache is for everything and for code or data at the same time.
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
			for _, monitor := range ParseWords(all[key]["monitors"]) {
				counted, _ := parseSet(monitor)
				if slices.ContainsFunc(counted, func(cpu int) bool { return !slices.Contains(set, cpu) }) {
					return name, fmt.Sprintf("The monitor of %q isn't inside of %q.", monitor, key)
				}
			}
			for _, level := range []string{"l3", "l2"} {
				for id := range ParseTexts(all[key][level]) {
					if ParseTexts(all[key][level+"_code"])[id]+ParseTexts(all[key][level+"_data"])[id] != "" {
						return name, fmt.Sprintf("%q has cache %s in %s, and in %s_code or %s_data.", key, id, level, level,
							level)
					}
				}
			}
		}
	}
	return "", ""
}

// lackingResctrl returns the parts of caches and of the memory bandwidth that the host can't allocate.
func (f Values) lackingResctrl(h HostParts) []Problem {
	if h.Allocations == nil {
		return nil
	}
	var problems []Problem
	lacks := func(name, key, kind, what, needs string, ids map[string]string) {
		for _, id := range sortedKeys(ids) {
			if n, _ := number(id); !slices.Contains(h.Allocations[kind], n) {
				problems = append(problems, Problem{join("cpu", name), fmt.Sprintf("can't allocate %s %s to the virtual CPUs "+
					"%s: that needs a CPU with %s, and resctrl mounted before libvirt starts", what, id, key, needs)})
			}
		}
	}
	parts := ParseTable(f["cpu."+cacheTune])
	for _, key := range sortedKeys(parts) {
		for _, column := range sortedKeys(parts[key]) {
			if column == "monitors" {
				continue
			}
			level, kind, separate := strings.Cut(column, "_")
			what, needs := strings.ToUpper(level)+" cache", "CAT"
			if separate {
				what, needs = what+" for "+kind, "CDP"
			}
			lacks(cacheTune, key, column, what, needs, ParseTexts(parts[key][column]))
		}
	}
	shares := ParseTable(f["cpu."+memoryTune])
	for _, key := range sortedKeys(shares) {
		lacks(memoryTune, key, MemoryBandwidth, "memory bandwidth", "MBA", ParseTexts(shares[key]["bandwidth"]))
	}
	return problems
}
