package domain

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// Effect says what a change of an attribute does to a running VM, as the documentation lists it.
type Effect struct {
	// Path is the path of the attribute, with * for keys, or of a device that is added or removed.
	Path string
	// Live says that the running VM takes the change. Replace says that the change needs a new VM. Otherwise it needs a
	// restart.
	Live, Replace bool
	// Renamed says that only a device's key changes.
	Renamed bool
	// Why is a sentence for the user.
	Why string
}

// Effects returns what changes do, by path. A path has several effects if they depend on the VM.
func Effects() []Effect {
	var all []Effect
	for _, b := range blocks {
		for _, row := range slices.Sorted(maps.Keys(b.rules)) {
			r := b.rules[row]
			if r.why == "" || strings.HasPrefix(row, " ") {
				continue // Only devices are added and removed.
			}
			for _, path := range documentedPaths(row) {
				all = append(all, Effect{
					Path: path, Live: r.effect == live, Replace: r.effect == replace, Renamed: r.why == onlyRenamed, Why: r.why,
				})
			}
		}
	}
	rows := func(path string, attributes []Attribute) {
		for _, a := range attributes {
			if a.Recorded {
				continue
			}
			at := join(path, a.Name)
			all = append(all, Effect{Path: at, Live: a.Live != 0, Why: a.Why})
			if why := a.liveRemovalBlocker(); why != "" {
				all = append(all, Effect{Path: at, Why: why})
			}
		}
	}
	for _, g := range Groups {
		rows(g.Path, g.Attributes)
	}
	for _, f := range Families {
		rows(f.Path+".*", f.Attributes)
	}
	rows("disks.*", DiskRows)
	rows("interfaces.*", InterfaceRows)
	slices.SortStableFunc(all, func(a, b Effect) int { return cmp.Compare(a.Path, b.Path) })
	return slices.Compact(all)
}

// liveRemovalBlocker says why a running VM can't lose the attribute's value; "" means that it can.
func (a Attribute) liveRemovalBlocker() string {
	value := "1"
	switch a.Kind {
	case Texts, Switches:
		value = FormatTexts(map[string]string{"0": value})
	case Table:
		row := Row{}
		for _, column := range a.Columns {
			row[column.Name] = value
		}
		value = FormatTable(map[string]Row{"0": row})
	default:
	}
	return a.restartRequired(Spec{BusyIOThread: 1}, value, "")
}

// documentedPaths returns the attributes that a rule is about. The rule may be one of several cases of an attribute.
func documentedPaths(rule string) []string {
	path, _, _ := strings.Cut(rule, " ")
	switch path {
	case "cpu.count":
		return []string{"cpu.sockets", "cpu.vcpus"}
	case "disks.*.source":
		return []string{"disks.*.block", "disks.*.file", "disks.*.network", "disks.*.volume"}
	case "interfaces.*.connection":
		return []string{"interfaces.*.bridge", "interfaces.*.network"}
	default:
		return []string{path}
	}
}
