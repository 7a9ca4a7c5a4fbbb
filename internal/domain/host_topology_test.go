package domain

import (
	"strings"
	"testing"
)

const unequalCells = "0.cpus=0-1\n0.memory=8388608\n1.cpus=2-3\n1.memory=12582912\n"

// TestFacts_Lacking: what a VM is bound to is compared with what a host says that it has; what it doesn't say is not.
func TestFacts_Lacking(t *testing.T) {
	t.Parallel()
	host := HostTopology{
		CPUs: []int{0, 1, 2, 3}, Nodes: []int{0}, Pages: map[uint64]uint64{4096: 1 << 20, 2 * mib: 8},
		NodePages:      map[int]map[uint64]uint64{0: {2 * mib: 6}, 2: {2 * mib: 2}},
		SecurityModels: []string{"none", "dac"},
		Allocations:    map[string][]int{"l3": {0}, "l3_code": nil, MemoryBandwidth: {0, 1}},
	}
	for _, test := range []struct {
		values Values
		memory uint64
		lacks  string
	}{
		{values: Values{"cpu.pin": "0=0-1\n1=2-3\n", "cpu.emulator_pin": "0"}},
		{values: Values{"cpu.pin": "0=0-1\n1=2,5-6\n"}, lacks: "cpu.pin: has no CPU 5-6, only 0-3"},
		{values: Values{"cpu.emulator_pin": "7"}, lacks: "cpu.emulator_pin: has no CPU 7, only 0-3"},
		{values: Values{"memory.numatune.nodeset": "0-1"}, lacks: "memory.numatune.nodeset: has no NUMA node 1, only 0"},
		{
			values: Values{"memory.numatune.cells": "0.mode=strict\n0.nodeset=2\n"},
			lacks:  "memory.numatune.cells: has no NUMA node 2",
		},
		{values: Values{seclabelPath: "dac.type=none\n"}},
		{values: Values{"cpu.cachetune": FormatTable(map[string]Row{"0-1": {"caches": "l3/0=3Mi\n", "monitors": `["0"]`}})}},
		{
			values: Values{"cpu.cachetune": FormatTable(map[string]Row{"0-1": {"caches": "l3/0=3Mi\nl3/1=3Mi\n"}})},
			lacks:  "cpu.cachetune: can't allocate L3 cache 1 to the virtual CPUs 0-1: it can allocate only 0",
		},
		{
			values: Values{"cpu.cachetune": FormatTable(map[string]Row{"2": {"caches": "l3_code/0=3Mi\n"}})},
			lacks:  "can't allocate L3 cache for code 0 to the virtual CPUs 2: that needs a CPU with CDP",
		},
		{values: Values{"cpu.memorytune": FormatTable(map[string]Row{"0": {"bandwidth": "1=60\n"}})}},
		{
			values: Values{"cpu.memorytune": FormatTable(map[string]Row{"0": {"bandwidth": "2=60\n"}})},
			lacks:  "cpu.memorytune: can't allocate memory bandwidth 2 to the virtual CPUs 0: it can allocate only 0-1",
		},
		{
			values: Values{seclabelPath: "selinux.type=none\n"},
			lacks:  "platform.seclabel: has no security driver selinux, only none, dac",
		},
		{values: Values{"memory.huge_pages": "1Gi"}, lacks: "memory.huge_pages: has no pages of 1Gi"},
		{values: Values{"memory.huge_pages": "2Mi"}},
		{values: Values{"memory.huge_pages": "2Mi"}, memory: 16 * mib},
		{
			values: Values{"memory.huge_pages": "2Mi"}, memory: 18 * mib,
			lacks: "has 8 pages of 2Mi, 16 MiB, and the VM needs 18 MiB",
		},
		{
			values: Values{
				"memory.huge_pages": "2Mi", "memory.numatune.mode": "strict", "memory.numatune.nodeset": "0",
			}, memory: 14 * mib, lacks: "has 6 pages of 2Mi on NUMA node 0, 12 MiB, and the VM needs 14 MiB",
		},
		{
			values: Values{
				"memory.huge_pages": "2Mi", "memory.numatune.mode": "preferred", "memory.numatune.nodeset": "0",
			}, memory: 16 * mib,
		},
		{values: Values{"memory.huge_pages": hugeDefault}, memory: 16 * mib},
		{
			values: Values{"memory.huge_pages": hugeDefault}, memory: 18 * mib,
			lacks: "has 8 pages of its default size, 16 MiB, and the VM needs 18 MiB",
		},
		// Pages of single cells, which have 8 MiB and 12 MiB: those of the other cell aren't counted.
		{values: Values{cpuNUMA: unequalCells, cellPages: "1=2Mi\n"}, memory: 20 * mib},
		{
			values: Values{cpuNUMA: unequalCells, cellPages: "0=2Mi\n1=2Mi\n"}, memory: 20 * mib,
			lacks: "memory.huge_pages_by_cell: has 8 pages of 2Mi, 16 MiB, and the VM needs 20 MiB",
		},
		{
			values: Values{cpuNUMA: unequalCells, hugePages: "2Mi", cellPages: "1=4Ki\n"}, memory: 28 * mib,
		},
		{
			values: Values{cpuNUMA: unequalCells, hugePages: "2Mi", cellPages: "1=1Gi\n"},
			lacks:  "memory.huge_pages_by_cell: has no pages of 1Gi",
		},
		{
			values: Values{cpuNUMA: unequalCells, cellPages: "0=4Ki\n1=64Ki\n"}, memory: 20 * mib,
			lacks: "memory.huge_pages_by_cell: has no pages of 64Ki",
		},
	} {
		var said []string
		var pages map[uint64]uint64
		if test.memory > 0 {
			pages = Spec{Memory: Memory{Size: &test.memory}, Values: test.values}.HostUse().Pages
		}
		for _, p := range test.values.Lacking(host, pages) {
			said = append(said, p.Path+": "+p.Message)
		}
		if text := strings.Join(said, "\n"); (text == "") != (test.lacks == "") || !strings.Contains(text, test.lacks) {
			t.Errorf("%v: %q", test.values, text)
		}
		if unknown := test.values.Lacking(HostTopology{}, pages); len(unknown) > 0 {
			t.Errorf("%v: %v", test.values, unknown)
		}
	}
}

// TestHostTopology_PageSize: the default size is that of the pages which a host has.
func TestHostTopology_PageSize(t *testing.T) {
	t.Parallel()
	const gib = 1 << 30
	for _, test := range []struct {
		pages       map[uint64]uint64
		asked, want uint64
	}{
		{map[uint64]uint64{4096: 100, 2 * mib: 8, gib: 0}, DefaultPages, 2 * mib},
		{map[uint64]uint64{4096: 100, 2 * mib: 0, gib: 4}, DefaultPages, gib},
		{map[uint64]uint64{4096: 100, 2 * mib: 8, gib: 4}, DefaultPages, 2 * mib},
		{map[uint64]uint64{4096: 100, 2 * mib: 0, gib: 0}, DefaultPages, 2 * mib},
		{map[uint64]uint64{4096: 100}, DefaultPages, 0},
		{map[uint64]uint64{4096: 100, 2 * mib: 8, gib: 4}, gib, gib},
	} {
		if got := (HostTopology{Pages: test.pages}).PageSize(test.asked); got != test.want {
			t.Errorf("%v, asked for %d: %d, want %d", test.pages, test.asked, got, test.want)
		}
	}
}
