package domain

import (
	"fmt"
	"slices"
)

// HostParts are the parts of a host that a definition can bind a VM to.
type HostParts struct {
	// CPUs and Nodes are the numbers of its logical processors and of its NUMA nodes.
	CPUs, Nodes []int
	// Pages is how many pages it has of each size, in bytes.
	Pages map[uint64]uint64
}

// Lacking lists what facts bind a VM to that a host doesn't have. memory is what the VM takes of the host when it
// starts; 0: it doesn't start.
func (f Facts) Lacking(h HostParts, memory uint64) []Problem {
	var problems []Problem
	lacks := func(path, what string, has []int, value string) {
		set, _ := parseSet(value)
		missing := slices.DeleteFunc(set, func(n int) bool { return slices.Contains(has, n) })
		if len(missing) > 0 && len(has) > 0 {
			problems = append(problems, Problem{path, fmt.Sprintf("has no %s %s, only %s", what, formatSet(missing),
				formatSet(slices.Clone(has)))})
		}
	}
	for _, path := range []string{"cpu.pin", "cpu.iothread_pin"} {
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
	return append(problems, f.lackingPages(h, memory)...)
}

func (f Facts) lackingPages(h HostParts, memory uint64) []Problem {
	size, ok := pageSize(f[hugePages])
	if !ok || len(h.Pages) == 0 {
		return nil // The host's default size isn't known, or nothing is.
	}
	switch pages, known := h.Pages[size]; {
	case !known:
		return []Problem{{hugePages, fmt.Sprintf("has no pages of %s", f[hugePages])}}
	case pages*size < memory:
		return []Problem{{hugePages, fmt.Sprintf("has %d pages of %s, %d MiB, and the VM needs %d MiB", pages, f[hugePages],
			pages*size/mib, memory/mib)}}
	default:
		return nil
	}
}
