package placement

import (
	"slices"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
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

	const first, second, third = "0000:03:10.0", "0000:03:10.2", "0000:03:10.4"

	nics := func(keys ...string) domain.HostUse { return domain.HostUse{Networks: map[string][]string{"vfs": keys}} }
	floor := func(sum uint64) domain.HostUse {
		return domain.HostUse{Floors: map[string]domain.NetworkFloor{"lan": {Sum: sum, Interface: "a"}}}
	}
	kilo := offer{guarantees: map[string]migration.Guarantee{"lan": {Limit: 1000, By: "bandwidth.inbound.average"}}}
	usb := func(kind, id string) domain.HostUse {
		return domain.HostUse{Alone: map[domain.HostPart]string{{Kind: kind, ID: id}: "devices.host_devices"}}
	}
	sticks := offer{usb: map[string]string{"1:4": "1234:abcd", "1:5": "1234:beef", "1:6": "1234:abcd"}}

	for name, tt := range map[string]struct {
		use    domain.HostUse
		others byName
		want   []string
		has    offer
	}{
		"a device of the network is left": {
			use: nics("a"), others: byName{"x": nics("a"), "y": alone(second), "z": alone(gpu)},
			has: offer{networks: map[string][]string{"vfs": {first, second, third}}},
		},
		"all devices of the network are given away": {
			use: nics("a"), others: byName{"x": nics("b"), "y": alone(second), "z": alone(gpu)},
			has: offer{networks: map[string][]string{"vfs": {first, second}}},
			want: []string{`interfaces.a.network: has 0 left of the PCI devices of its network "vfs" (2), and the VM needs ` +
				`1: others are given to VM "x", "y"`},
		},
		"the network has fewer devices than the VM needs": {
			use: nics("a", "b"), has: offer{networks: map[string][]string{"vfs": {first}}},
			want: []string{`interfaces.b.network: has 1 left of the PCI devices of its network "vfs" (1), and the VM needs 2`},
		},
		"the network can guarantee the rest": {use: floor(400), others: byName{"x": floor(500), "y": floor(100)}, has: kilo},
		"the network has guaranteed too much": {
			use: floor(401), others: byName{"x": floor(500), "y": floor(100), "z": nics("a")}, has: kilo,
			want: []string{`interfaces.a.bandwidth.inbound.floor: has 1000 kB/s in its network "lan" ` +
				`(bandwidth.inbound.average), of which 600 are guaranteed to VM "x", "y", and the VM asks for 401`},
		},
		"what the network can guarantee isn't known": {use: floor(2000), others: byName{"x": floor(500)}},
		"the network hands out nothing":              {use: nics("a"), others: byName{"x": nics("a")}},
		"a USB device is given by its address": {
			use: usb(domain.USBDevice, "1234:abcd"), others: byName{"x": usb(domain.USBAddress, "1:4")}, has: sticks,
			want: []string{`devices.host_devices: has given usb device 1234:abcd (USB address 1:4) to VM "x"`},
		},
		"a USB device is given by its ids": {
			use: usb(domain.USBAddress, "1:4"), others: byName{"x": usb(domain.USBDevice, "1234:abcd")}, has: sticks,
			want: []string{`devices.host_devices: has given usb device 1234:abcd (USB address 1:4) to VM "x"`},
		},
		"another USB device is given": {
			use: usb(domain.USBDevice, "1234:abcd"), others: byName{"x": usb(domain.USBAddress, "1:5")}, has: sticks,
		},
		"another of the same kind is given": {
			use: usb(domain.USBAddress, "1:4"), others: byName{"x": usb(domain.USBAddress, "1:6")}, has: sticks,
		},
		"pages of a node are left": {
			use: onNode(1, 16<<20), others: byName{"x": onNode(0, 16<<20), "y": pages(small, 16<<20)},
		},
		"too few of a node are left": {
			use:    onNode(1, 8<<20),
			others: byName{"x": onNode(1, 10<<20), "y": onNode(0, 16<<20)},
			want:   []string{"memory.huge_pages: has 6Mi left of its 16Mi in pages of 2Mi on NUMA node 1, and the VM needs 8Mi"},
		},
		"too few of a node are there": {use: onNode(1, 32<<20)},
		"no VM has it":                {use: alone(gpu), others: byName{"x": alone("0000:66:00.0")}},
		"another has it": {
			use:    alone(gpu),
			others: byName{"x": alone(gpu)},
			want:   []string{`devices.host_devices.a.address: has given pci device 0000:65:00.0 to VM "x"`},
		},
		"pages are left":                  {use: pages(small, 16<<20), others: byName{"x": pages(small, 16<<20)}},
		"pages of another size are taken": {use: pages(small, 32<<20), others: byName{"x": pages(big, big)}},
		"too few are left": {
			use:    pages(small, 16<<20),
			others: byName{"x": pages(small, 8<<20), "y": pages(small, 10<<20)},
			want:   []string{"memory.huge_pages: has 14Mi left of its 32Mi in pages of 2Mi, and the VM needs 16Mi"},
		},
		"too few are left for a cell": {
			use: domain.HostUse{
				Pages: map[uint64]uint64{small: 16 << 20, big: big}, CellPages: map[uint64]bool{small: true},
			},
			others: byName{"x": pages(small, 18<<20), "y": pages(big, big)},
			want: []string{
				"memory.huge_pages_by_cell: has 14Mi left of its 32Mi in pages of 2Mi, and the VM needs 16Mi",
			},
		},
		"too few of the default size are left": {
			use:    pages(domain.DefaultPages, 16<<20),
			others: byName{"x": pages(small, 8<<20), "y": pages(domain.DefaultPages, 10<<20)},
			want:   []string{"memory.huge_pages: has 14Mi left of its 32Mi in pages of 2Mi, and the VM needs 16Mi"},
		},
		"too few are there": {use: pages(small, 64<<20)},
		"CPUs are shared":   {use: cpus(false, 2, 3), others: byName{"x": cpus(false, 2, 3)}},
		"CPUs are others":   {use: cpus(true, 2, 3), others: byName{"x": cpus(true, 4, 5)}},
		"CPUs are wanted alone": {
			use: cpus(true, 1, 2, 3), others: byName{"x": cpus(false, 2, 3, 4)}, want: []string{disputed},
		},
		"another VM has its CPUs alone": {
			use: cpus(false, 2, 3), others: byName{"x": cpus(true, 2, 3)}, want: []string{disputed},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			var got []string
			for _, p := range shortages(a, tt.use, tt.others, tt.has) {
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
		for _, p := range shortages(a, pages(16<<20), others, offer{pages: tt.unused}) {
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
