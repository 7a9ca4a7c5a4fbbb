package libvirt

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestNode_ofTheTestDriver: the driver has two cells with different pages, a BIOS and a SCSI host.
func TestNode_ofTheTestDriver(t *testing.T) {
	t.Parallel()
	h := open(t, Config{URI: "test:///default"})
	ctx := t.Context()
	info, err := h.Info(ctx)
	must(t, err)
	second := NUMACell{
		ID: 1, MemoryBytes: 4 << 30, CPUs: []int{8, 9, 10, 11, 12, 13, 14, 15}, Distances: map[int]int{},
		Pages: []PagePool{{8 << 10, 524288}, {2 << 20, 0}, {1 << 30, 0}},
	}
	if len(info.Cells) != 2 || cmp.Diff(second, info.Cells[1]) != "" {
		t.Errorf("got cells %+v, want the second to be %+v", info.Cells, second)
	}
	free, err := h.NUMAFree(ctx, info.Cells)
	must(t, err)
	// What virsh freecell says of it. Of pages the driver says that it told nothing.
	if diff := cmp.Diff([]NUMAFree{
		{MemoryBytes: 2 << 20, Pages: map[uint64]uint64{}}, {MemoryBytes: 4 << 20, Pages: map[uint64]uint64{}},
	}, free); diff != "" {
		t.Error(diff)
	}
	// If one can't be read, none is returned: 0 would be said of it.
	if free, err := h.NUMAFree(ctx, append(info.Cells, NUMACell{ID: 7})); err == nil || free != nil {
		t.Errorf("with a cell that doesn't exist: got %+v, %v", free, err)
	}

	sysinfo, err := h.Sysinfo(ctx)
	must(t, err)
	if diff := cmp.Diff(&Sysinfo{
		BIOSVendor: "LENOVO", BIOSVersion: "G4ETA1WW (2.61 )", BIOSDate: "05/07/2014",
	}, sysinfo); diff != "" {
		t.Error(diff)
	}

	devices, err := h.NodeDevices(ctx, nil)
	must(t, err)
	if !slices.ContainsFunc(devices, func(d NodeDevice) bool {
		return d.Name == "scsi_host1" && d.Parent == "computer" && d.Capability == "scsi_host"
	}) {
		t.Errorf("got %+v", devices)
	}
	devices, err = h.NodeDevices(ctx, []string{"pci"})
	must(t, err)
	if len(devices) != 0 {
		t.Errorf("got %+v, and the driver has no PCI", devices)
	}
	_, err = h.NodeDevices(ctx, []string{"floppy"})
	want(t, err, ErrInvalid)
}

// TestParseNodeDevice_kinds reads what hosts with such devices say of them: examples of libvirt's own documentation and
// tests.
func TestParseNodeDevice_kinds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		document string
		want     NodeDevice
	}{
		"SR-IOV card": {`<device>
  <name>pci_0000_42_00_0</name><parent>pci_0000_40_03_0</parent>
  <driver><name>bnx2x</name></driver>
  <capability type='pci'>
    <class>0x020000</class><domain>0</domain><bus>66</bus><slot>0</slot><function>0</function>
    <product id='0x168e'>NetXtreme II BCM57810 10 Gigabit Ethernet</product>
    <vendor id='0x14e4'>Broadcom Inc. and subsidiaries</vendor>
    <capability type='virt_functions' maxCount='64'>
      <address domain='0x0000' bus='0x42' slot='0x08' function='0x0'/>
      <address domain='0x0000' bus='0x42' slot='0x08' function='0x1'/>
    </capability>
    <iommuGroup number='12'><address domain='0x0000' bus='0x42' slot='0x00' function='0x0'/></iommuGroup>
    <numa node='1'/>
  </capability>
</device>`, NodeDevice{
			Name: "pci_0000_42_00_0", Parent: "pci_0000_40_03_0", Capability: "pci", Driver: "bnx2x", Address: "0000:42:00.0",
			VendorID: "0x14e4", Vendor: "Broadcom Inc. and subsidiaries", ProductID: "0x168e",
			Product: "NetXtreme II BCM57810 10 Gigabit Ethernet", NUMACell: new(1), IOMMUGroup: new(12),
			MaxVirtualFunctions: new(64), VirtualFunctions: []string{"0000:42:08.0", "0000:42:08.1"},
		}},
		"one of its functions": {`<device>
  <name>pci_0000_42_08_0</name><parent>pci_0000_40_03_0</parent><driver><name>vfio-pci</name></driver>
  <capability type='pci'>
    <domain>0</domain><bus>66</bus><slot>8</slot><function>0</function>
    <product id='0x16af'/><vendor id='0x14e4'>Broadcom</vendor>
    <capability type='phys_function'><address domain='0x0000' bus='0x42' slot='0x00' function='0x0'/></capability>
  </capability>
</device>`, NodeDevice{
			Name: "pci_0000_42_08_0", Parent: "pci_0000_40_03_0", Capability: "pci", Driver: "vfio-pci",
			Address: "0000:42:08.0", VendorID: "0x14e4", Vendor: "Broadcom", ProductID: "0x16af",
			PhysicalFunction: "0000:42:00.0",
		}},
		"card with mediated devices": {`<device>
  <name>pci_0000_06_00_0</name><parent>pci_0000_00_03_0</parent><driver><name>nvidia</name></driver>
  <capability type='pci'>
    <domain>0</domain><bus>6</bus><slot>0</slot><function>0</function><vendor id='0x10de'>NVIDIA</vendor>
    <capability type='mdev_types'>
      <type id='nvidia-11'><name>GRID M60-0B</name><deviceAPI>vfio-pci</deviceAPI>
        <availableInstances>16</availableInstances></type>
    </capability>
  </capability>
</device>`, NodeDevice{
			Name: "pci_0000_06_00_0", Parent: "pci_0000_00_03_0", Capability: "pci", Driver: "nvidia", Address: "0000:06:00.0",
			VendorID: "0x10de", Vendor: "NVIDIA", MdevTypes: map[string]int{"nvidia-11": 16},
		}},
		"mediated device": {`<device>
  <name>mdev_4b20d080_1b54_4048_85b3_a6a62d165c01</name><parent>pci_0000_06_00_0</parent>
  <driver><name>vfio_mdev</name></driver>
  <capability type='mdev'>
    <type id='nvidia-11'/><uuid>4b20d080-1b54-4048-85b3-a6a62d165c01</uuid><iommuGroup number='14'/>
  </capability>
</device>`, NodeDevice{
			Name: "mdev_4b20d080_1b54_4048_85b3_a6a62d165c01", Parent: "pci_0000_06_00_0", Capability: "mdev",
			Driver: "vfio_mdev", MdevType: "nvidia-11", MdevUUID: "4b20d080-1b54-4048-85b3-a6a62d165c01",
			IOMMUGroup: new(14),
		}},
		"network interface": {`<device>
  <name>net_eth0_52_54_00_c0_0d_01</name><parent>pci_0000_42_00_0</parent>
  <devnode type='dev'>/dev/net/eth0</devnode>
  <capability type='net'><interface>eth0</interface><address>52:54:00:c0:0d:01</address>
    <link speed='1000' state='up'/><capability type='80203'/></capability>
</device>`, NodeDevice{
			Name: "net_eth0_52_54_00_c0_0d_01", Parent: "pci_0000_42_00_0", Capability: "net", Device: "eth0",
			Address: "52:54:00:c0:0d:01",
		}},
		"disk": {`<device>
  <name>block_sda</name><parent>scsi_0_0_0_0</parent><devnode type='dev'>/dev/sda</devnode>
  <capability type='storage'><block>/dev/sda</block><bus>scsi</bus><drive_type>disk</drive_type>
    <model>SSD 850</model><vendor>ATA</vendor><serial>S21N</serial><size>500107862016</size></capability>
</device>`, NodeDevice{
			Name: "block_sda", Parent: "scsi_0_0_0_0", Capability: "storage", Device: "/dev/sda", Vendor: "ATA",
			Product: "SSD 850", Serial: "S21N", SizeBytes: new(uint64(500107862016)),
		}},
		"USB stick": {`<device>
  <name>usb_1_1</name><parent>usb_usb1</parent><driver><name>usb</name></driver>
  <devnode type='dev'>/dev/bus/usb/001/002</devnode>
  <capability type='usb_device'><bus>1</bus><device>2</device>
    <product id='0x5581'>Ultra Fit</product><vendor id='0x0781'>SanDisk Corp.</vendor></capability>
</device>`, NodeDevice{
			Name: "usb_1_1", Parent: "usb_usb1", Capability: "usb_device", Driver: "usb", Device: "/dev/bus/usb/001/002",
			BusAddress: "1:2",
			VendorID:   "0x0781", Vendor: "SanDisk Corp.", ProductID: "0x5581", Product: "Ultra Fit",
		}},
		"vDPA device": {`<device>
  <name>vdpa_vdpa0</name><path>/sys/devices/vdpa0</path><parent>computer</parent>
  <driver><name>vhost_vdpa</name></driver>
  <capability type='vdpa'><chardev>/dev/vhost-vdpa-0</chardev></capability>
</device>`, NodeDevice{
			Name: "vdpa_vdpa0", Parent: "computer", Capability: "vdpa", Driver: "vhost_vdpa", Device: "/dev/vhost-vdpa-0",
		}},
	} {
		got, err := parseNodeDevice(c.document)
		must(t, err)
		if diff := cmp.Diff(&c.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestParseGuestCPUs_hostModel: only what guests can really use is told.
func TestParseGuestCPUs_hostModel(t *testing.T) {
	t.Parallel()
	got, err := parseGuestCPUs(`<domainCapabilities><cpu>
  <mode name='host-passthrough' supported='yes'/>
  <mode name='host-model' supported='yes'><model fallback='forbid'>EPYC-Rome</model><vendor>AMD</vendor>
    <feature policy='require' name='x2apic'/><feature policy='require' name='tsc-deadline'/>
    <feature policy='disable' name='xsaves'/></mode>
  <mode name='custom' supported='yes'><model usable='yes' vendor='Intel'>Westmere</model>
    <model usable='no'>Skylake-Client</model><model usable='yes'>EPYC</model></mode>
</cpu></domainCapabilities>`)
	must(t, err)
	if diff := cmp.Diff(&GuestCPUs{
		HostModel: "EPYC-Rome", Vendor: "AMD", Features: []string{"tsc-deadline", "x2apic"},
		Models: []string{"EPYC", "Westmere"},
	}, got); diff != "" {
		t.Error(diff)
	}
}

// TestReadCapabilities_resctrl: what a host can allocate of caches and of memory bandwidth is told from what it only
// has.
func TestReadCapabilities_resctrl(t *testing.T) {
	t.Parallel()
	var info HostInfo
	must(t, info.readCapabilities(`<capabilities><host><cache>
  <bank id="0" level="2" type="both" size="1" unit="MiB" cpus="0-7"/>
  <bank id="0" level="3" type="both" size="15" unit="MiB" cpus="0-5">
    <control granularity="768" min="1536" unit="KiB" type="both" maxAllocs="4"/></bank>
  <bank id="1" level="3" type="both" size="15" unit="MiB" cpus="6-11">
    <control granularity="768" min="1536" unit="KiB" type="code" maxAllocs="4"/>
    <control granularity="768" min="1536" unit="KiB" type="data" maxAllocs="4"/></bank>
  </cache><memory_bandwidth><node id="0" cpus="0-5"><control granularity="10" min="10" maxAllocs="4"/></node>
    <node id="1" cpus="6-11"/></memory_bandwidth></host></capabilities>`))
	want := []CacheControl{
		{Level: 3, ID: 0, Type: "both"}, {Level: 3, ID: 1, Type: "code"}, {Level: 3, ID: 1, Type: "data"},
	}
	if diff := cmp.Diff(want, info.Caches); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]int{0}, info.MemoryBandwidth); diff != "" {
		t.Error(diff)
	}
}
