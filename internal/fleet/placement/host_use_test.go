package placement

import (
	"slices"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// What a VM asks for is missing where others have it: devices and addresses by name, huge pages by their number.
func TestMissing(t *testing.T) {
	t.Parallel()

	const small, big, gpu = 2 << 20, 1 << 30, "0000:65:00.0"

	pool := []libvirt.PagePool{{SizeBytes: small, Pages: 8}}
	a := inventory.Reply{Info: &libvirt.HostInfo{Cells: []libvirt.NUMACell{{Pages: pool}, {ID: 1, Pages: pool}}}}
	alone := func(address string) domain.HostUse {
		part := domain.HostPart{Kind: domain.PCIDevice, ID: address}

		return domain.HostUse{Alone: map[domain.HostPart]string{part: "devices.host_devices.a.address"}}
	}
	pages := func(size, bytes uint64) domain.HostUse {
		return domain.HostUse{Pages: map[uint64]uint64{size: bytes}}
	}

	cpus := func(dedicated bool, cpus ...int) domain.HostUse {
		return domain.HostUse{CPUs: cpus, Dedicated: dedicated}
	}

	const disputed = `cpu.pin: has VM "x" pinned to CPU 2-3, too, and placement.dedicated_cpus of one of the two VMs ` +
		"rules that out"

	type byName = map[string]domain.HostUse

	onNode := func(node int, bytes uint64) domain.HostUse {
		use := pages(small, bytes)
		use.Nodes = []int{node}

		return use
	}

	for name, tt := range map[string]struct {
		use    domain.HostUse
		others byName
		want   []string
	}{
		"pages of a node are left": {
			onNode(1, 16<<20), byName{"x": onNode(0, 16<<20), "y": pages(small, 16<<20)}, nil,
		},
		"too few of a node are left": {
			onNode(1, 8<<20),
			byName{"x": onNode(1, 10<<20), "y": onNode(0, 16<<20)},
			[]string{"memory.huge_pages: has 6Mi left of its 16Mi in pages of 2Mi on NUMA node 1, and the VM needs 8Mi"},
		},
		"too few of a node are there": {onNode(1, 32<<20), nil, nil},
		"no VM has it":                {alone(gpu), byName{"x": alone("0000:66:00.0")}, nil},
		"another has it": {
			alone(gpu),
			byName{"x": alone(gpu)},
			[]string{`devices.host_devices.a.address: has given pci device 0000:65:00.0 to VM "x"`},
		},
		"pages are left":                  {pages(small, 16<<20), byName{"x": pages(small, 16<<20)}, nil},
		"pages of another size are taken": {pages(small, 32<<20), byName{"x": pages(big, big)}, nil},
		"too few are left": {
			pages(small, 16<<20),
			byName{"x": pages(small, 8<<20), "y": pages(small, 10<<20)},
			[]string{"memory.huge_pages: has 14Mi left of its 32Mi in pages of 2Mi, and the VM needs 16Mi"},
		},
		"too few of the default size are left": {
			pages(domain.DefaultPages, 16<<20),
			byName{"x": pages(small, 8<<20), "y": pages(domain.DefaultPages, 10<<20)},
			[]string{"memory.huge_pages: has 14Mi left of its 32Mi in pages of 2Mi, and the VM needs 16Mi"},
		},
		"too few are there":             {pages(small, 64<<20), nil, nil},
		"CPUs are shared":               {cpus(false, 2, 3), byName{"x": cpus(false, 2, 3)}, nil},
		"CPUs are others":               {cpus(true, 2, 3), byName{"x": cpus(true, 4, 5)}, nil},
		"CPUs are wanted alone":         {cpus(true, 1, 2, 3), byName{"x": cpus(false, 2, 3, 4)}, []string{disputed}},
		"another VM has its CPUs alone": {cpus(false, 2, 3), byName{"x": cpus(true, 2, 3)}, []string{disputed}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			var got []string
			for _, p := range missing(a, tt.use, tt.others, nil) {
				got = append(got, p.Error())
			}

			if !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// Huge pages that no VM has may be used by other programs.
func TestMissing_unusedPages(t *testing.T) {
	t.Parallel()

	const small = 2 << 20

	pool := []libvirt.PagePool{{SizeBytes: small, Pages: 16}}
	a := inventory.Reply{Info: &libvirt.HostInfo{Cells: []libvirt.NUMACell{{Pages: pool}}}}
	pages := func(bytes uint64) domain.HostUse { return domain.HostUse{Pages: map[uint64]uint64{small: bytes}} }
	others := map[string]domain.HostUse{"x": pages(8 << 20)}

	for name, tt := range map[string]struct {
		unused map[uint64]uint64
		want   string
	}{
		"unknown":        {nil, ""},
		"as many unused": {map[uint64]uint64{small: 24 << 20}, ""},
		"more unused":    {map[uint64]uint64{small: 32 << 20}, ""}, // of a VM that isn't started yet
		"fewer unused": {
			map[uint64]uint64{small: 12 << 20}, "memory.huge_pages: has 12Mi left of its 32Mi in pages of 2Mi (other " +
				"programs use some), and the VM needs 16Mi",
		},
	} {
		var got string
		for _, p := range missing(a, pages(16<<20), others, tt.unused) {
			got += p.Error()
		}

		if got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// Slots for protected memory are full where as many VMs have one of the kind.
func TestFullSlots(t *testing.T) {
	t.Parallel()

	others := map[string]domain.HostUse{
		"x": {Slot: domain.SlotSEV}, "y": {Slot: domain.SlotSEV}, "z": {Slot: domain.SlotSEVES}, "plain": {},
	}
	for want, limit := range map[string]int{
		"": 3,
		`platform.launch_security.type: has 2 slots for guests with SEV, and has given them to VMs "x", "y"`: 2,
	} {
		var got string
		for _, p := range fullSlots(limit, domain.SlotSEV, others) {
			got = p.Error()
		}

		if got != want {
			t.Errorf("of %d: %q, want %q", limit, got, want)
		}
	}

	if full := fullSlots(0, domain.SlotSEVES, nil); len(full) != 1 {
		t.Errorf("a host without slots is %v", full)
	}
}
