package domain

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestFreeSlots: a device is plugged into a port where the VM has PCI Express, and into a slot of any bus elsewhere.
func TestFreeSlots(t *testing.T) {
	t.Parallel()
	const root, port = `<controller type="pci" index="0" model="pcie-root"/>`,
		`<controller type="pci" index="1" model="pcie-root-port"/>`
	const bridge = `<controller type="pci" index="2" model="dmi-to-pci-bridge"/>
    <controller type="pci" index="3" model="pci-bridge"/>`
	for name, test := range map[string]struct {
		machine, controllers string
		free, conventional   int
	}{
		"no port":               {"pc-q35-7.2", root, 0, 0},
		"a port":                {"pc-q35-7.2", root + port, 1, 0},
		"a port and a bridge":   {"pc-q35-7.2", root + port + bridge, 1, 31},
		"a bridge and no port":  {"pc-q35-2.4", root + bridge, 0, 31},
		"no port on ARM":        {"virt-7.2", root, 0, 0},
		"an older machine type": {"pc-i440fx-7.2", `<controller type="pci" index="0" model="pci-root"/>`, 31, 0},
	} {
		s := parse(t, `<domain><os><type machine="`+test.machine+`"/></os><devices>`+test.controllers+
			`</devices></domain>`).Spec()
		if s.FreeSlots == nil || *s.FreeSlots != test.free || s.ConventionalSlots != test.conventional {
			t.Errorf("%s: %v free slots, %d conventional", name, s.FreeSlots, s.ConventionalSlots)
		}
	}
	if s := parse(t, `<domain><os><type machine="microvm"/></os><devices/></domain>`).Spec(); s.FreeSlots != nil {
		t.Errorf("a VM without PCI has %d free slots", *s.FreeSlots)
	}
}

// TestBlocks_allSayTheirBus: a new VM gets a port for each device that needs one, so every block of devices says what
// its devices are plugged into.
func TestBlocks_allSayTheirBus(t *testing.T) {
	t.Parallel()
	known := []bus{busPCI, busConventional, busUSB, busSerial, busNone}
	d := parse(t, leastDefinition)
	if err := d.Apply(full()); err != nil {
		t.Fatal(err)
	}
	for _, b := range blocks {
		var name string
		switch {
		case b.group != nil && b.group.Device != "":
			if name = b.group.Path; !slices.Contains(known, b.group.Bus) {
				t.Errorf("%s: its Bus is %q", name, b.group.Bus)
			}
		case b.family != nil:
			if name = b.family.Path; b.family.BusOf == nil && !slices.Contains(known, b.family.Bus) {
				t.Errorf("%s: its Bus is %q", name, b.family.Bus)
			}
			if own := b.family.Buses; b.family.BusOf != nil {
				for _, e := range b.elements(d) {
					if on := b.bus(e); on != busNone && !slices.Contains(own, on) {
						t.Errorf("%s: its device is on the bus %q, which isn't one of %v", name, on, own)
					}
				}
			}
		case b.kind != nil:
			name = b.kind.path
		default:
			continue
		}
		if b.bus == nil {
			t.Errorf("%s says no bus: a new VM would have no port for such a device", name)
			continue
		}
		for _, e := range b.elements(d) {
			if !slices.Contains(known, b.bus(e)) {
				t.Errorf("%s: its device is on the bus %q", name, b.bus(e))
			}
		}
	}
}

// TestNew_portForEachDevice: the ports of a new VM suffice for its devices, so that all spare ones stay free.
func TestNew_portForEachDevice(t *testing.T) {
	t.Parallel()
	ports := func(change func(*Spec)) int {
		s := Spec{Name: "vm", Type: "qemu", Memory: sizeOf(64), Values: Values{}}
		change(&s)
		d, err := New(s, testUUID)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(output(t, d), `model="pcie-root-port"`)
	}
	usual := ports(func(*Spec) {})
	serials := func(kinds ...string) func(*Spec) {
		return func(s *Spec) {
			s.Serials = map[string]Row{}
			for i, kind := range kinds {
				s.Serials[fmt.Sprint(i)] = Row{"type": "null", "target_type": kind}
			}
		}
	}
	values := func(pairs ...string) func(*Spec) {
		return func(s *Spec) {
			for i := 0; i < len(pairs); i += 2 {
				s.Values[pairs[i]] = pairs[i+1]
			}
		}
	}
	hostDevice := func(kind, address string) func(*Spec) {
		return func(s *Spec) { s.HostDevices = map[string]Row{"a": {"type": kind, "address": address}} }
	}
	for name, test := range map[string]struct {
		change func(*Spec)
		more   int
	}{
		"no RNG":                {values("devices.rng.model", None), -1},
		"vsock":                 {values("devices.vsock.model", "virtio"), 1},
		"watchdog":              {values("devices.watchdog.action", "reset"), 1},
		"TPM":                   {values("devices.tpm.model", "tpm-crb"), 0},
		"port on ISA":           {serials("isa-serial"), 0},
		"port on USB":           {serials("usb-serial"), 0},
		"two ports on a bridge": {serials("pci-serial", "pci-serial"), 1},
		"PCI device":            {hostDevice("pci", "0000:65:00.0"), 1},
		"USB device":            {hostDevice("usb", "1234:abcd"), 0},
		"disk":                  {func(s *Spec) { s.Disks = map[string]Disk{"a": {Source: DiskSource{File: "/a"}}} }, 1},
		"SATA disk": {func(s *Spec) {
			s.Disks = map[string]Disk{"a": {Source: DiskSource{File: "/a"}, Bus: "sata"}}
		}, 0},
		"interface": {func(s *Spec) { s.Interfaces = map[string]Interface{"a": {Network: "default"}} }, 1},
		"directory": {func(s *Spec) {
			s.Filesystems = map[string]Row{"a": {"target": "a", "source": "/srv", "driver": "virtiofs"}}
		}, 1},
		"tablet":         {func(s *Spec) { s.Inputs = map[string]Row{"a": {"type": "tablet", "bus": "usb"}} }, 0},
		"virtio tablet":  {func(s *Spec) { s.Inputs = map[string]Row{"a": {"type": "tablet", "bus": "virtio"}} }, 1},
		"no serial port": {func(s *Spec) { s.SerialConsole, s.GuestAgent = new(false), new(false) }, -1},
	} {
		if got := ports(test.change) - usual; got != test.more {
			t.Errorf("%s: %d more ports, want %d", name, got, test.more)
		}
	}
}
