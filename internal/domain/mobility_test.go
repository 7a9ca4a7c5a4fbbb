package domain

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMobility_readsWhatDecidesAboutMoving(t *testing.T) {
	t.Parallel()
	d, err := Parse(`<domain type='kvm' id='3'>
  <name>web</name><memory unit='MiB'>2</memory>
  <os><type arch='x86_64' machine='pc-q35-7.2'>hvm</type><kernel>/boot/k</kernel><initrd>/boot/i</initrd>
    <nvram>/n</nvram></os>
  <cpu mode='custom'><model>qemu64</model><feature policy='require' name='invtsc'/></cpu>
  <features><hyperv mode='passthrough'><reenlightenment state='on'/></hyperv></features>
  <launchSecurity type='sev'/>
  <devices>
    <disk type='file' device='disk'><driver name='qemu' type='qcow2' cache='none'/>
      <source file='/a.qcow2'><encryption format='luks'/></source><backingStore type='file' index='2'>
      <format type='qcow2'/><source file='/b'/><backingStore type='block' index='3'><format type='raw'/>
      <source dev='/dev/c'/><backingStore/></backingStore></backingStore><target dev='vda'/>
      <alias name='ua-disk-root'/></disk>
    <disk type='block' device='lun'><source dev='/dev/sdb'><reservations managed='yes'/></source><target dev='sda'/>
      <shareable/></disk>
    <disk type='network' device='disk'><source protocol='nbd' name='d'><host name='h'/></source>
      <target dev='vdb'/></disk>
    <disk type='file' device='cdrom'><target dev='sdb'/><readonly/></disk>
    <interface type='network'><source network='default' portgroup='eng' bridge='virbr0'/><filterref filter='clean'/>
      <alias name='ua-net-lan'/></interface>
    <interface type='direct'><source dev='eth0' mode='bridge'/></interface>
    <interface type='hostdev'><teaming type='transient' persistent='ua-net-lan'/></interface>
    <hostdev type='pci'><source><address domain='0x0000' bus='0x03' slot='0x00' function='0x1'/></source>
      <alias name='ua-host-device-gpu'/></hostdev>
    <hostdev type='usb'><source><vendor id='0x1234'/><product id='0xbeef'/></source></hostdev>
    <filesystem><driver type='virtiofs'/><source dir='/srv'/><target dir='share'/>
      <alias name='ua-filesystem-data'/></filesystem>
    <memory model='nvdimm'><source><path>/n</path></source><alias name='ua-nvdimm-store'/></memory>
    <memory model='virtio-pmem'><source><path>/p</path></source><alias name='ua-extra-log'/></memory>
    <memory model='virtio-pmem'><source><path>/q</path></source></memory>
    <tpm><backend type='emulator'/></tpm>
    <smartcard mode='host'/><smartcard mode='passthrough' type='spicevmc'/>
    <shmem name='a'><alias name='ua-extra-shared'/></shmem><shmem name='b' role='peer'/>
    <shmem name='c' role='master'/><shmem name='d' role='master'><model type='ivshmem'/></shmem>
  </devices>
</domain>`)
	if err != nil {
		t.Fatal(err)
	}
	want := Mobility{
		Pages: map[uint64]uint64{},
		Type:  "kvm", Arch: "x86_64", Machine: "pc-q35-7.2", Memory: 2 << 20, CPUMode: "custom",
		CPU: `<cpu mode="custom"><model>qemu64</model><feature policy="require" name="invtsc"/></cpu>`,
		Disks: []MobileDisk{
			{
				Key: "root", Target: "vda", Device: "disk", Path: "/a.qcow2", Cache: "none", Format: "qcow2", Encrypted: true,
				Backing: []BackingImage{{Path: "/b", Format: "qcow2"}, {Format: "raw"}},
			},
			{
				Key: "sda", Target: "sda", Device: "lun", Path: "/dev/sdb", Block: true, Shareable: true, Reservations: true,
			},
			{Key: "vdb", Target: "vdb", Device: "disk", Network: true},
			{Key: "sdb", Target: "sdb", Device: "cdrom", Format: "raw", Empty: true, ReadOnly: true},
		},
		Interfaces: []MobileInterface{
			{Key: "lan", Type: "network", Source: "default", Filter: "clean", PortGroup: "eng"},
			{Key: "net1", Type: "direct", Source: "eth0"},
			{Key: "net2", Type: "hostdev", Failover: true},
		},
		HostDevices: []ImmobileDevice{
			{What: "pci 0000:03:00.1", Attribute: "devices.host_devices.gpu"},
			{What: "usb 1234:beef", Attribute: "devices.host_devices.hostdev1"},
			{What: "smartcard (host)", Attribute: "devices.smartcard"},
		}, VFIO: true,
		SharedMemory: []MobileMemory{{"a", "extra_device_xml.shared"}, {"b", ""}, {"d", ""}},
		Filesystems: []MobileFilesystem{
			{Attribute: "devices.filesystems.data", Driver: "virtiofs", Target: "share", Source: "/srv"},
		},
		PersistentMemory: []MobileMemory{
			{"/n", "devices.nvdimms.store"}, {"/p", "extra_device_xml.log"}, {"/q", ""},
		},
		Immobile: []ImmobileDevice{
			{What: "memory device of model virtio-pmem", Attribute: "extra_device_xml.log"},
			{What: "memory device of model virtio-pmem"},
		},
		Confidential: "sev", HypervPassthrough: true, Reenlightenment: true, InvariantTSC: true,
		TPM: "emulator", Values: Values{
			"devices.tpm.backend": "emulator", cpuFeatures: "invtsc=require\n", "platform.hyperv.mode": "passthrough",
			"platform.hyperv.reenlightenment": "yes", "devices.smartcard.mode": "host", "firmware.nvram": "/n",
			"platform.launch_security.type": "sev",
		},
		NVRAM: "/n", Files: []string{"/boot/k", "/boot/i"},
	}
	if diff := cmp.Diff(want, d.Mobility()); diff != "" {
		t.Errorf("facts differ (-want +got):\n%s", diff)
	}
}

// Devices that QEMU marks as unmigratable are known without a question to QEMU.
func TestMobility_immobileDevices(t *testing.T) {
	t.Parallel()
	d := parse(t, `<domain type='kvm'><name>web</name><devices>
    <sound model='ich9'/><sound model='usb'/><sound model='virtio'/>
    <interface type='user'><model type='usb-net'/><alias name='ua-net-lan'/></interface>
    <interface type='user'><model type='virtio'/></interface>
    <serial type='pty'><target type='usb-serial'/></serial><serial type='pty'><target type='isa-serial'/></serial>
    <crypto model='virtio' type='qemu'><backend model='builtin'/><alias name='ua-extra-keys'/></crypto>
    <crypto model='virtio' type='qemu'><backend model='lkcf'/></crypto>
    <disk type='file' device='disk'><source file='/a'/><target dev='nvme0' bus='nvme'/>
      <alias name='ua-disk-root'/></disk>
    <disk type='file' device='disk'><source file='/b'/><target dev='vda' bus='virtio'/></disk>
    <input type='passthrough' bus='virtio'><source evdev='/dev/input/event1'/></input><input type='tablet' bus='usb'/>
    <iommu model='amd'/>
  </devices></domain>`)
	want := []ImmobileDevice{
		{What: "sound card of model usb", Attribute: "devices.sound.model"},
		{What: "sound card of model virtio", Attribute: "devices.sound.model", SomeQEMU: true},
		{What: "network card of model usb-net", Attribute: "interfaces.lan.model"},
		{What: "serial port on USB", Attribute: "devices.serials.serial0.target_type"},
		{What: "virtio crypto device", Attribute: "extra_device_xml.keys"},
		{What: "virtio crypto device"},
		{What: "disk on the bus nvme", Attribute: "disks.root.bus"},
		{What: "input device of its host", Attribute: "devices.inputs.input0.type"},
		{What: "IOMMU of model amd", Attribute: "devices.iommu.model", SomeQEMU: true},
	}
	if diff := cmp.Diff(want, d.Mobility().Immobile); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// Where firmware and TPM keep what outlives a run decides how it is carried along.
func TestMobility_placesOfWhatIsKept(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		os, devices string
		want        Mobility
	}{
		{`<nvram template='/t'>/n.fd</nvram>`, "", Mobility{NVRAM: "/n.fd"}},
		{`<nvram type='file'><source file='/n.fd'/></nvram>`, "", Mobility{NVRAM: "/n.fd"}},
		{`<nvram type='network'><source protocol='nbd'/></nvram>`, "", Mobility{NVRAMOther: "network"}},
		{`<type>hvm</type><loader readonly='yes' type='pflash'>/c.fd</loader>`, "", Mobility{NVRAMUnnamed: true}},
		{`<nvram template='/t'/><loader readonly='yes' type='pflash'>/c.fd</loader>`, "", Mobility{NVRAMUnnamed: true}},
		{`<loader readonly='yes' type='pflash' stateless='yes'>/c.fd</loader>`, "", Mobility{}},
		{`<loader type='rom'>/c.fd</loader>`, "", Mobility{}},
		{"", `<tpm><backend type='emulator'><encryption secret='s'/></backend></tpm>`, Mobility{
			TPM: "emulator", TPMSpecial: "it is encrypted with a secret of the host", TPMSecret: "s",
		}},
		{"", `<tpm><backend type='emulator'><source type='dir' path='/p'/></backend></tpm>`, Mobility{
			TPM: "emulator", TPMSpecial: "it has a place of its own",
		}},
		{"", `<tpm><backend type='passthrough'/></tpm>`, Mobility{TPM: "passthrough", HostDevices: []ImmobileDevice{
			{What: "TPM", Attribute: "devices.tpm"},
		}}},
		{"", `<tpm><backend type='external'><source type='unix'/></backend></tpm>`, Mobility{
			TPM: "external", HostDevices: []ImmobileDevice{{What: "TPM in a program of its host", Attribute: "devices.tpm"}},
		}},
	} {
		d, err := Parse("<domain type='kvm'><name>web</name><os>" + tt.os + "</os><devices>" + tt.devices +
			"</devices></domain>")
		if err != nil {
			t.Fatal(err)
		}
		m := d.Mobility()
		got := Mobility{
			NVRAM: m.NVRAM, NVRAMOther: m.NVRAMOther, NVRAMUnnamed: m.NVRAMUnnamed, TPM: m.TPM, TPMSpecial: m.TPMSpecial,
			TPMSecret: m.TPMSecret, HostDevices: m.HostDevices,
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s%s differs (-want +got):\n%s", tt.os, tt.devices, diff)
		}
	}
}

// A definition whose firmware libvirt chooses doesn't name the file of its variables.
func TestMobility_variablesOfChosenFirmware(t *testing.T) {
	t.Parallel()
	d, err := Parse(`<domain type='kvm'><name>web</name><os firmware='efi'><type>hvm</type></os></domain>`)
	if err != nil {
		t.Fatal(err)
	}
	if m := d.Mobility(); !m.NVRAMUnnamed || m.NVRAM != "" {
		t.Errorf("variables: %+v", m)
	}
}

// A configuration for Ignition that was made with the VM goes along as its disks do; any other stays where it is.
func TestMobility_ignition(t *testing.T) {
	t.Parallel()
	const file = "/srv/vms/web-ignition"
	d, err := Parse(`<domain type='kvm'><name>web</name><sysinfo type='fwcfg'><entry name='opt/com.coreos/config' file='` +
		file + `'/></sysinfo></domain>`)
	if err != nil {
		t.Fatal(err)
	}
	if m := d.Mobility(); m.Ignition != file || len(m.Disks) > 0 {
		t.Errorf("another file: %+v", m)
	}
	own := map[string]OwnDisk{IgnitionKey: {Pool: "vms", Volume: "web-ignition", Path: file}}
	if err := d.SetMetadata(Metadata{OwnDisks: own}); err != nil {
		t.Fatal(err)
	}
	m := d.Mobility()
	if m.Ignition != "" || len(m.Disks) != 1 || m.Disks[0].Path != file || m.Disks[0].Own == nil || !m.Disks[0].ReadOnly {
		t.Errorf("its own file: %+v", m)
	}
}
