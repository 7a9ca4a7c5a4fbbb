package domain

import (
	"slices"
	"strconv"
	"strings"

	"github.com/beevik/etree"
)

// forgetVCPUs removes the tuning of virtual CPUs that no longer exist, which libvirt refuses.
func (d *Definition) forgetVCPUs(maxVCPUs int) {
	for _, e := range children(child(d.root(), "cputune"), "vcpupin") {
		if n, ok := number(attr(e, "vcpu")); ok && n >= maxVCPUs {
			drop(e)
		}
	}
	there := func(n int) bool { return n < maxVCPUs }
	for _, e := range children(child(d.root(), "cputune"), "vcpusched", "cachetune", "memorytune") {
		for _, monitor := range children(e, "monitor") {
			keepThreads(monitor, "vcpus", there)
		}
		keepThreads(e, "vcpus", there)
	}
}

// keepThreads removes threads from the set that an element is for, and the element if none is left.
func keepThreads(e *etree.Element, key string, stays func(int) bool) {
	set, ok := parseSet(attr(e, key))
	if !ok {
		return
	}
	left := slices.DeleteFunc(slices.Clone(set), func(n int) bool { return !stays(n) })
	switch {
	case len(left) == 0:
		drop(e)
	case len(left) < len(set):
		setAttr(e, key, formatSet(left))
	}
}

// applyCells assigns the virtual CPUs to the NUMA cells. New virtual CPUs go to the last cell, and removed ones leave
// their cell.
func (d *Definition) applyCells(maxVCPUs int) error {
	cells := children(child(d.root(), "cpu", "numa"), "cell")
	known := 0
	for _, cell := range cells {
		set, ok := parseSet(attr(cell, "cpus"))
		if !ok {
			continue
		}
		known = max(known, slices.Max(append(set, -1))+1)
		left := slices.DeleteFunc(slices.Clone(set), func(n int) bool { return n >= maxVCPUs })
		if len(left) == 0 && len(set) > 0 {
			return Problem{"cpu", "A NUMA cell of the VM would be left without virtual CPUs. Change its cells first."}
		}
		if len(left) < len(set) {
			setAttr(cell, "cpus", formatSet(left))
		}
	}
	if len(cells) == 0 || known >= maxVCPUs {
		return nil
	}
	last := cells[len(cells)-1]
	if set, ok := parseSet(attr(last, "cpus")); ok {
		for n := known; n < maxVCPUs; n++ {
			set = append(set, n)
		}
		setAttr(last, "cpus", formatSet(set))
	}
	return nil
}

// parseSet reads a list of CPUs as libvirt writes it: "0-3,8,^2".
func parseSet(s string) ([]int, bool) {
	in := map[int]bool{}
	for part := range strings.SplitSeq(s, ",") {
		part, without := strings.CutPrefix(strings.TrimSpace(part), "^")
		if part == "" {
			continue
		}
		low, high, isRange := strings.Cut(part, "-")
		first, ok := number(low)
		last := first
		if ok && isRange {
			last, ok = number(high)
		}
		if !ok || last-first > 1<<16 {
			return nil, false
		}
		for n := first; n <= last; n++ {
			in[n] = !without
		}
	}
	var set []int
	for n, included := range in {
		if included {
			set = append(set, n)
		}
	}
	slices.Sort(set)
	return set, true
}

// formatSet is the inverse of parseSet.
func formatSet(set []int) string {
	slices.Sort(set)
	var parts []string
	for i := 0; i < len(set); {
		j := i
		for j+1 < len(set) && set[j+1] == set[j]+1 {
			j++
		}
		part := strconv.Itoa(set[i])
		if j > i {
			part += "-" + strconv.Itoa(set[j])
		}
		parts = append(parts, part)
		i = j + 1
	}
	return strings.Join(parts, ",")
}
