package domain

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// Effect is what a change of an attribute does to a running VM, as the documentation lists it.
type Effect struct {
	// Path is the attribute's, with * for keys, or that of a device that comes or goes.
	Path string
	// Live says that the running VM takes the change, Replace that it takes a new VM. Otherwise it takes a restart.
	Live, Replace bool
	// Why is a sentence for the user.
	Why string
}

// Effects lists what changes do, by path. A path has several where it depends on the VM.
func Effects() []Effect {
	var all []Effect
	for _, b := range blocks {
		for _, row := range slices.Sorted(maps.Keys(b.rules)) {
			r := b.rules[row]
			if r.why == "" || strings.HasPrefix(row, " ") {
				continue // What isn't a device neither comes nor goes.
			}
			for _, path := range documentedPaths(row) {
				all = append(all, Effect{path, r.effect == live, r.effect == replace, r.why})
			}
		}
	}
	rows := func(path string, attributes []Attribute) {
		for _, a := range attributes {
			if !a.Recorded {
				all = append(all, Effect{Path: join(path, a.Name), Live: a.Live != 0, Why: a.Why})
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

// documentedPaths are the attributes that a rule is about, which may be one of several of a case.
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
