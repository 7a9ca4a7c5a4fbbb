package domain

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestHostUse: what a VM needs of its host is the same as it is declared and as it is read.
func TestHostUse(t *testing.T) {
	t.Parallel()
	gpu := Row{"type": "pci", "address": "0000:65:00.0"}
	s := Spec{
		Name: "vm", Type: "kvm", Memory: sizeOf(64),
		Values:      Values{"devices.vsock.model": "virtio", vsockCID: "77", hugePages: "2Mi", cpuPin: "0=2-3\n1=3,5\n"},
		HostDevices: map[string]Row{"gpu": gpu, "key": {"type": "usb", "address": "1234:abcd"}},
		Interfaces:  map[string]Interface{"fast": {HostDevice: "0000:03:00.1"}, "vdpa": {VDPA: "/dev/vhost-vdpa-0"}},
	}
	want := HostUse{
		Alone: map[HostPart]string{
			{PCIDevice, "0000:65:00.0"}:       "devices.host_devices.gpu.address",
			{USBDevice, "1234:abcd"}:          "devices.host_devices.key.address",
			{PCIDevice, "0000:03:00.1"}:       "interfaces.fast.hostdev",
			{VDPADevice, "/dev/vhost-vdpa-0"}: "interfaces.vdpa.vdpa",
			{"vsock address", "77"}:           vsockCID,
		},
		Pages: map[uint64]uint64{2 * mib: 64 * mib}, CPUs: []int{2, 3, 5},
	}
	d, err := New(s, testUUID)
	if err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string]HostUse{"declared": s.HostUse(), "read": d.HostUse(d.Spec())} {
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if more := want.Without(want); !more.Empty() {
		t.Errorf("in addition to what it has it needs %v", more)
	}
	if what := want.Shared(Spec{HostDevices: map[string]Row{"other": gpu}}.HostUse()); what != "pci device 0000:65:00.0" {
		t.Errorf("it shares %q", what)
	}
	plain := Spec{
		Values: Values{vsockCID: Auto, hugePages: None}, Interfaces: map[string]Interface{"lan": {Network: "default"}},
	}
	if use := plain.HostUse(); !use.Empty() || want.Shared(use) != "" {
		t.Errorf("a VM that needs nothing needs %v", use)
	}
}

// TestHostUse_dedicatedCPUs: a VM that has its CPUs for itself shares them with no other, whichever of the two says so.
func TestHostUse_dedicatedCPUs(t *testing.T) {
	t.Parallel()
	use := func(dedicated bool, pins string) HostUse {
		return Spec{Values: Values{cpuPin: pins}}.HostUse().WithMetadata(Metadata{DedicatedCPUs: dedicated})
	}
	alone, shares, elsewhere := use(true, "0=2-3\n"), use(false, "0=1-2\n1=3\n"), use(true, "0=4\n")
	for _, both := range [][2]HostUse{{alone, shares}, {shares, alone}} {
		if got := both[0].Shared(both[1]); got != "CPU 2-3" {
			t.Errorf("they dispute %q", got)
		}
	}
	if got := shares.Shared(shares) + alone.Shared(elsewhere); got != "" {
		t.Errorf("neither claims %q", got)
	}
	if more := alone.Without(use(false, "0=2-3\n")); more.DisputedCPUs(shares) != "2-3" {
		t.Errorf("what it shared before is claimed as %v", more)
	}
	if more := alone.Without(alone); !more.Empty() {
		t.Errorf("in addition to what it has it needs %v", more)
	}
}

// TestHostUse_chosenAddress: in a running VM libvirt has chosen an address that others can't have either.
func TestHostUse_chosenAddress(t *testing.T) {
	t.Parallel()
	d, err := Parse(`<domain type="qemu" id="1"><name>vm</name><devices>
  <vsock model="virtio"><cid auto="yes" address="3"/></vsock>
</devices></domain>`)
	if err != nil {
		t.Fatal(err)
	}
	if use := d.HostUse(d.Spec()); use.Alone[HostPart{"vsock address", "3"}] != vsockCID {
		t.Errorf("it has %v", use)
	}
}

// TestHostUse_securitySlot: SEV-ES and SEV-SNP have slots of their own, other protections none.
func TestHostUse_securitySlot(t *testing.T) {
	t.Parallel()
	for declared, want := range map[[2]string]SecuritySlot{
		{"sev", "0x3"}: SlotSEV, {"sev", "0x7"}: SlotSEVES, {"sev", "5"}: SlotSEVES, {"sev-snp", "0x30000"}: SlotSEVES,
		{"tdx", ""}: "", {"", ""}: "",
	} {
		use := Spec{Values: Values{
			LaunchSecurityType: declared[0], "platform.launch_security.policy": declared[1],
		}}.HostUse()
		if use.Slot != want || use.Empty() != (want == "") || !use.Without(use).Empty() {
			t.Errorf("%v takes %q", declared, use.Slot)
		}
	}
}
