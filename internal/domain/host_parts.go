package domain

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// HostParts are the parts of a host that a definition can bind a VM to.
type HostParts struct {
	// CPUs and Nodes are the numbers of its logical processors and of its NUMA nodes.
	CPUs, Nodes []int
	// Pages is how many pages it has of each size, in bytes.
	Pages map[uint64]uint64
	// SecurityModels are those of its security drivers: "dac", "selinux".
	SecurityModels []string
}

// Lacking lists what values bind a VM to that a host doesn't have. memory is what the VM takes of the host when it
// starts; 0: it doesn't start.
func (f Values) Lacking(h HostParts, memory uint64) []Problem {
	var problems []Problem
	lacks := func(path, what string, has []int, value string) {
		set, _ := parseSet(value)
		missing := slices.DeleteFunc(set, func(n int) bool { return slices.Contains(has, n) })
		if len(missing) > 0 && len(has) > 0 {
			problems = append(problems, Problem{path, fmt.Sprintf("has no %s %s, only %s", what, formatSet(missing),
				formatSet(slices.Clone(has)))})
		}
	}
	for _, path := range []string{cpuPin, "cpu.iothread_pin"} {
		pins := ParseTexts(f[path])
		for _, thread := range sortedKeys(pins) {
			lacks(path, "CPU", h.CPUs, pins[thread])
		}
	}
	lacks("cpu.emulator_pin", "CPU", h.CPUs, f["cpu.emulator_pin"])
	lacks("memory.numatune.nodeset", "NUMA node", h.Nodes, f["memory.numatune.nodeset"])
	cells := ParseTable(f["memory.numatune.cells"])
	for _, key := range sortedKeys(cells) {
		lacks("memory.numatune.cells", "NUMA node", h.Nodes, cells[key]["nodeset"])
	}
	for _, model := range sortedKeys(ParseTable(f[seclabelPath])) {
		if len(h.SecurityModels) > 0 && !slices.Contains(h.SecurityModels, model) {
			problems = append(problems, Problem{seclabelPath, fmt.Sprintf("has no security driver %s, only %s", model,
				strings.Join(h.SecurityModels, ", "))})
		}
	}
	return append(problems, f.lackingPages(h, memory)...)
}

// PageSize is the size of the huge pages that a VM has on the host: the one that it asks for, or with DefaultPages that
// of the pages which the host has. libvirt doesn't tell the default: of several sizes it is taken to be the smallest,
// as Linux does. 0: the host has none.
func (h HostParts) PageSize(asked uint64) uint64 {
	if asked != DefaultPages {
		return asked
	}
	var size uint64
	for _, other := range slices.Sorted(maps.Keys(h.Pages)) {
		if other >= mib && (size == 0 || h.Pages[size] == 0 && h.Pages[other] > 0) { // Smaller ones are ordinary pages.
			size = other
		}
	}
	return size
}

func (f Values) lackingPages(h HostParts, memory uint64) []Problem {
	asked, ok := hugePageSize(f)
	if !ok || len(h.Pages) == 0 {
		return nil // Nothing is declared, or known.
	}
	name := f[hugePages]
	if asked == DefaultPages {
		name = "its default size"
	}
	size := h.PageSize(asked)
	switch pages, known := h.Pages[size]; {
	case !known:
		return []Problem{{hugePages, "has no pages of " + name}}
	case pages*size < memory:
		return []Problem{{hugePages, fmt.Sprintf("has %d pages of %s, %d MiB, and the VM needs %d MiB", pages, name,
			pages*size/mib, memory/mib)}}
	default:
		return nil
	}
}
