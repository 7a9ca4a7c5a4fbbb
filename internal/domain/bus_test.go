package domain

import "testing"

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
