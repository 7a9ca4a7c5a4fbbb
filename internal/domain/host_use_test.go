package domain

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// TestHostUse: what a VM needs of its host is the same as it is declared and as it is read.
func TestHostUse(t *testing.T) {
	t.Parallel()
	gpu := Row{"type": "pci", "address": "0000:65:00.0"}
	s := Spec{
		Name: "vm", Type: "kvm", Memory: sizeOf(64),
		Values:      Values{"devices.vsock.model": "virtio", vsockCID: "77", hugePages: "2Mi", cpuPin: "0=2-3\n1=3,5\n"},
		HostDevices: map[string]Row{"gpu": gpu, "key": {"type": "usb", "address": "1234:abcd"}},
		Interfaces: map[string]Interface{
			"fast": {HostDevice: "0000:03:00.1"}, "vdpa": {VDPA: "/dev/vhost-vdpa-0"},
			"lan": {Network: "vfs"}, "dmz": {Network: "vfs"},
		},
	}
	want := HostUse{
		Alone: map[HostPart]string{
			{PCIDevice, "0000:65:00.0"}:       "devices.host_devices.gpu.address",
			{USBDevice, "1234:abcd"}:          "devices.host_devices.key.address",
			{PCIDevice, "0000:03:00.1"}:       "interfaces.fast.hostdev",
			{VDPADevice, "/dev/vhost-vdpa-0"}: "interfaces.vdpa.vdpa",
			{"vsock address", "77"}:           vsockCID,
		},
		Networks: map[string][]string{"vfs": {"dmz", "lan"}},
		Pages:    map[uint64]uint64{2 * mib: 64 * mib}, CPUs: []int{2, 3, 5},
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
	if more := want.Without(want); !more.Empty() || len(more.Networks) > 0 {
		t.Errorf("in addition to what it has it needs %v", more)
	}
	fewer := HostUse{Networks: map[string][]string{"vfs": {"lan"}}}
	if diff := cmp.Diff(want.Networks, want.Without(fewer).Networks); diff != "" {
		t.Errorf("with one more interface on the network: %s", diff)
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

// TestHostUse_definition: what can't be declared, and a definition has nevertheless, is used alike.
func TestHostUse_definition(t *testing.T) {
	t.Parallel()
	const gib = 1 << 30
	for name, want := range map[string]HostUse{
		"corpus/hugepages-per-cell.xml": {
			Pages:     map[uint64]uint64{gib: 2 * gib, 2 * mib: 2 * gib},
			CellPages: map[uint64]bool{gib: true, 2 * mib: true},
		},
		"corpus/disk-nvme.xml": {Alone: map[HostPart]string{
			{PCIDevice, "0000:01:00.0"}: "disks.vda", {PCIDevice, "0001:02:00.0"}: "disks.vdb",
		}},
		"corpus/hostdev-usb.xml": {Alone: map[HostPart]string{
			{USBDevice, "1234:beef"}: "devices.host_devices.hostdev0.address", {USBAddress, "14:6"}: "devices.host_devices",
		}},
	} {
		document, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		d, err := Parse(string(document))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, d.HostUse(d.Spec()), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestHostUse_pagesOfCells: a page without a set is for the cells that no other page names, and a memory device counts
// in its cell. What is read counts the same if it is declared, except for memory that was plugged in.
func TestHostUse_pagesOfCells(t *testing.T) {
	t.Parallel()
	const (
		cells = `<cpu><numa><cell id="1" memory="64" unit="MiB"/><cell id="0" memory="128" unit="MiB"/></numa></cpu>`
		dimm  = `<devices><memory model="dimm"><target><size unit="MiB">32</size><node>1</node></target></memory></devices>`
	)
	for name, tt := range map[string]struct {
		pages, more string
		want        map[uint64]uint64
	}{
		"the rest": {
			`<page size="4" unit="MiB"/><page size="2" unit="MiB" nodeset="1"/>`, cells,
			map[uint64]uint64{2 * mib: 64 * mib, 4 * mib: 128 * mib},
		},
		"no rest":        {`<page size="2" unit="MiB" nodeset="0"/>`, cells, map[uint64]uint64{2 * mib: 128 * mib}},
		"a device":       {`<page size="2" unit="MiB" nodeset="1"/>`, cells + dimm, map[uint64]uint64{2 * mib: 96 * mib}},
		"ordinary pages": {`<page size="4" unit="KiB" nodeset="0-1"/>`, cells, map[uint64]uint64{}},
		"no cells":       {`<page size="2" unit="MiB" nodeset="0"/>`, "", map[uint64]uint64{2 * mib: 256 * mib}},
		"one for all":    {`<page size="2" unit="MiB"/>`, cells, map[uint64]uint64{2 * mib: 256 * mib}},
	} {
		d, err := Parse(`<domain type="qemu"><name>vm</name><memory unit="MiB">256</memory><memoryBacking><hugepages>` +
			tt.pages + `</hugepages></memoryBacking>` + tt.more + `</domain>`)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.want, d.HostUse(d.Spec()).Pages); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		declared := d.Spec()
		declared.Memory = Memory{Size: new(sumOf(d.memoryOfCells(256 * mib)))}
		if diff := cmp.Diff(tt.want, declared.HostUse().Pages); diff != "" && name != "a device" && name != "one for all" {
			t.Errorf("%s, declared: %s", name, diff)
		}
	}
}

func sumOf(memory map[int]uint64) (sum uint64) {
	for _, bytes := range memory {
		sum += bytes
	}
	return sum
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
