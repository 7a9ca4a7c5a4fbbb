package domain

import (
	"strconv"
	"strings"
	"testing"
)

// A new VM has ports of its own for its devices, in front of those for later, as many as are declared.
func TestHotplugPorts_ofNewVMs(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		machine string
		values  Values
		want    int
	}{
		{"q35", nil, 8},
		{"q35", Values{hotplugPorts: "3"}, 3},
		{"q35", Values{hotplugPorts: "0"}, 0},
		{"virt", Values{hotplugPorts: "20"}, 20},
		{"pc", nil, 0},
		{"pc", Values{hotplugPorts: "0"}, 0},
	} {
		d, err := New(Spec{
			Name: "vm", Type: "qemu", Machine: test.machine, Memory: sizeOf(64), Values: test.values,
			Disks: map[string]Disk{"root": {Source: DiskSource{File: "/r"}}},
		}, "8e2b2f5c-8b0e-4a63-9d5e-0a2a3f6f9c11")
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := number(d.Spec().Values[hotplugPorts]); got != test.want {
			t.Errorf("%s %v: %d ports, want %d", test.machine, test.values, got, test.want)
		}
		own := 0
		for i, e := range d.controllers("pci") {
			if attr(e, "index") != strconv.Itoa(i) {
				t.Errorf("%s: the port %s is at place %d", test.machine, attr(e, "index"), i)
			}
			if attr(e, "model") == "pcie-root-port" && attr(child(e, "alias"), "name") == "" {
				own++
			}
		}
		if test.machine != "pc" && own < 5 { // The disk, the balloon, RNG, and the controllers for USB and SCSI.
			t.Errorf("%s: %d ports of its own", test.machine, own)
		}
	}
	ports := func(inputs map[string]Row) int {
		d, err := New(Spec{
			Name: "vm", Type: "qemu", Machine: "q35", Memory: sizeOf(64), Inputs: inputs,
		}, "8e2b2f5c-8b0e-4a63-9d5e-0a2a3f6f9c11")
		if err != nil {
			t.Fatal(err)
		}
		return len(d.controllers("pci"))
	}
	usb, virtio := Row{"type": "tablet", "bus": "usb"}, Row{"type": "tablet", "bus": "virtio"}
	if without, with := ports(map[string]Row{"a": usb}), ports(map[string]Row{"a": virtio}); with != without+1 {
		t.Errorf("%d controllers with a virtio tablet, %d with a USB one", with, without)
	}
	_, err := New(Spec{
		Name: "vm", Type: "qemu", Machine: "pc", Memory: sizeOf(64), Values: Values{hotplugPorts: "1"},
	}, "8e2b2f5c-8b0e-4a63-9d5e-0a2a3f6f9c11")
	if err == nil || !strings.Contains(err.Error(), "no PCI Express ports") {
		t.Errorf("pc with ports: %v", err)
	}
}

// Ports that devices are plugged into stay, and those that libvirt has added aren't meant.
func TestHotplugPorts_takeNoneThatIsUsed(t *testing.T) {
	t.Parallel()
	d := parse(t, `<domain><devices>
  <controller type="pci" index="0" model="pcie-root"/><controller type="pci" index="1" model="pcie-root-port"/>
  <controller type="pci" index="2" model="pcie-root-port"><alias name="ua-port-1"/></controller>
  <controller type="pci" index="3" model="pcie-root-port"><alias name="ua-port-2"/></controller>
  <disk type="file"><target dev="vda" bus="virtio"/><address type="pci" bus="0x03" slot="0x00"/></disk>
</devices></domain>`)
	declare := func(n string) error { return d.Apply(Spec{Values: Values{hotplugPorts: n}}) }
	if err := declare("1"); err != nil || d.Spec().Values[hotplugPorts] != "1" ||
		!strings.Contains(output(t, d), "ua-port-2") {
		t.Errorf("%v:\n%s", err, output(t, d))
	}
	if err := declare(""); err == nil || !strings.Contains(err.Error(), "plugged into 1 of these ports") {
		t.Errorf("the port of the disk is let go: %v", err)
	}
	if err := declare("3"); err != nil || strings.Count(output(t, d), "ua-port-1") != 1 ||
		!strings.Contains(output(t, d), `index="5"`) || d.Spec().Values[hotplugPorts] != "3" {
		t.Errorf("%v:\n%s", err, output(t, d))
	}
}
