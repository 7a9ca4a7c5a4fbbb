package domain

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestDeviceClass: the class of a device is in the metadata, the device that was chosen for it in the definition. On
// another host the VM has another one, and a declaration of the class alone changes nothing.
func TestDeviceClass(t *testing.T) {
	t.Parallel()
	declared := Spec{Name: "vm", Type: "kvm", Memory: sizeOf(64), HostDevices: map[string]Row{
		"gpu": {"class": "gpu"}, "key": {"type": "usb", "address": "1234:abcd"},
	}}
	chosen, ok := ParseHostDevice("pci:0000:65:00.0")
	if !ok || chosen != (HostPart{PCIDevice, "0000:65:00.0"}) {
		t.Fatal(chosen, ok)
	}
	assigned := declared.Unassigned()
	assigned.HostDevices["gpu"] = chosen.Assign(declared.HostDevices["gpu"])
	d, err := New(assigned, testUUID)
	if err != nil {
		t.Fatal(err)
	}
	m := Metadata{DeviceClasses: assigned.DeviceClasses()}
	if err := d.SetMetadata(m); err != nil {
		t.Fatal(err)
	}
	read := d.Spec()
	if diff := cmp.Diff(assigned.HostDevices, read.HostDevices); diff != "" {
		t.Error(diff)
	}
	if changes := Changes(read, declared); len(changes) > 0 {
		t.Error(changes)
	}
	if diff := cmp.Diff(declared.HostDevices, read.Unassigned().HostDevices); diff != "" {
		t.Error(diff)
	}
	use := read.HostUse()
	if diff := cmp.Diff(map[string]uint64{"gpu": 1}, use.ByClass()); diff != "" || use.Alone[chosen] == "" {
		t.Error(diff, use)
	}
	if there := use.OnOtherHost(); there.Alone[chosen] != "" || len(there.Alone) != 1 || use.Alone[chosen] == "" {
		t.Errorf("on another host it needs %v, here %v", there, use)
	}
	if left := use.Without(use); !left.Empty() || use.OnOtherHost().Empty() {
		t.Errorf("in addition to what it has it needs %v", left)
	}
	// Another device of the class takes its place in the definition.
	read.HostDevices["gpu"] = HostPart{PCIDevice, "0000:66:00.0"}.Assign(read.HostDevices["gpu"])
	if err := d.Apply(Spec{HostDevices: read.HostDevices}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(read.HostDevices, d.Spec().HostDevices); diff != "" {
		t.Error(diff)
	}
}

// TestParseHostDevice_refuses what is no address of a device.
func TestParseHostDevice_refuses(t *testing.T) {
	t.Parallel()
	for _, listed := range []string{"", "pci", "pci:65:00.0", "0000:65:00.0", "usb:0000:65:00.0", "scsi:0:0:0"} {
		if part, ok := ParseHostDevice(listed); ok {
			t.Errorf("%q is %v", listed, part)
		}
	}
}
