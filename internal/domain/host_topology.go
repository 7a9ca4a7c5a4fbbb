package domain

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// HostTopology are the parts of a host that a definition can bind a VM to.
type HostTopology struct {
	// CPUs are the numbers of the host's logical processors, and Nodes those of its NUMA nodes.
	CPUs, Nodes []int
	// Pages is the number of the host's pages, by page size in bytes. NodePages are those of each NUMA node.
	Pages     map[uint64]uint64
	NodePages map[int]map[uint64]uint64
	// SecurityModels are the host's security drivers: "dac", "selinux".
	SecurityModels []string
	// Allocations are the numbers of the caches whose parts the host can allocate, by CacheName, and of the memory
	// controllers, by MemoryBandwidth; nil: unknown.
	Allocations map[string][]int
}

// MemoryBandwidth is the key of the memory controllers in HostTopology.Allocations.
const MemoryBandwidth = "bandwidth"

// Lacking returns the parts that the values bind a VM to and that the host doesn't have. pages are the bytes of huge
// pages that the VM takes from the host when it starts, by page size; nil: it doesn't start.
func (f Values) Lacking(h HostTopology, pages map[uint64]uint64) []Problem {
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
	return slices.Concat(problems, f.lackingResctrl(h), f.lackingPages(h, pages))
}

// PageSize returns the size of the huge pages that a VM gets on the host: the requested size, or for DefaultPages the
// host's default. libvirt doesn't report the default, so if the host has several sizes, PageSize assumes the smallest,
// as Linux does. It returns 0 if the host has no huge pages.
func (h HostTopology) PageSize(asked uint64) uint64 {
	if asked != DefaultPages {
		return asked
	}
	var size uint64
	for _, other := range slices.Sorted(maps.Keys(h.Pages)) {
		if other >= mib && (size == 0 || h.Pages[size] == 0 && h.Pages[other] > 0) { // Smaller pages are ordinary.
			size = other
		}
	}
	return size
}

// PagesOn returns the number of the pages of these NUMA nodes, by page size in bytes; no nodes: of all.
func (h HostTopology) PagesOn(nodes []int) map[uint64]uint64 {
	if len(nodes) == 0 || h.NodePages == nil {
		return h.Pages
	}
	pages := map[uint64]uint64{}
	for _, node := range nodes {
		for size, n := range h.NodePages[node] {
			pages[size] += n
		}
	}
	return pages
}

// OnNodes returns the words that name NUMA nodes after an amount of memory, "" for no nodes.
func OnNodes(nodes []int) string {
	if len(nodes) == 0 {
		return ""
	}
	return " on NUMA node " + formatSet(slices.Clone(nodes))
}

// memoryNodes returns the host's NUMA nodes that all of the memory has to come from, nil if others are possible.
func (f Values) memoryNodes() []int {
	if f["memory.numatune.mode"] != "strict" {
		return nil
	}
	nodes, _ := parseSet(f["memory.numatune.nodeset"]) // Check has refused anything else.
	return nodes
}

func (f Values) lackingPages(h HostTopology, need map[uint64]uint64) []Problem {
	if len(h.Pages) == 0 {
		return nil // Unknown.
	}
	var problems []Problem
	nodes, sizes := f.memoryNodes(), f.pageSizes()
	pages := h.PagesOn(nodes)
	for _, asked := range slices.Sorted(maps.Keys(sizes)) {
		size, name := h.PageSize(asked), "its default size"
		if asked != DefaultPages {
			name = formatPage(asked)
		}
		name += OnNodes(nodes)
		switch has, known := pages[size]; {
		case !known:
			problems = append(problems, Problem{sizes[asked], "has no pages of " + name})
		case has*size < need[asked]:
			problems = append(problems, Problem{sizes[asked], fmt.Sprintf("has %d pages of %s, %d MiB, and the VM needs %d MiB",
				has, name, has*size/mib, need[asked]/mib)})
		}
	}
	return problems
}
