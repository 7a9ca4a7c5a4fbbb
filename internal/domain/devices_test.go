package domain

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestApply_disks(t *testing.T) {
	t.Parallel()
	// with declares all disks of a sample, as they are, and the changes.
	with := func(name string, change func(map[string]Disk)) Spec {
		disks := sample(t, name).readDisks()
		for key, d := range disks { // What is declared of them is what they are, not how they are tuned.
			d.Values = nil
			disks[key] = d
		}
		change(disks)
		return Spec{Disks: disks}
	}
	change := func(name, key string, f func(*Disk)) Spec {
		return with(name, func(disks map[string]Disk) {
			d := disks[key]
			f(&d)
			disks[key] = d
		})
	}
	runApplyCases(t, []applyCase{
		{
			name: "source keeps address, target and tuning", sample: "uefi-secboot",
			want: Spec{Disks: map[string]Disk{"vda": {Source: DiskSource{File: "/srv/new.img"}}, "sdb": {
				Device: "cdrom", Source: DiskSource{File: "/srv/iso/virtio-win.iso"},
			}}},
			gone: []string{`disk device="disk" type="block"`, `source dev="/dev/vg0/win11"`},
			come: []string{`disk device="disk" type="file"`, `source file="/srv/new.img"`},
		},
		{
			name: "authentication and encryption stay", sample: "ceph",
			want: change("ceph", "sda", func(d *Disk) {
				d.Source = DiskSource{Network: &NetworkSource{
					Protocol: "rbd", Name: "vms/other", Hosts: []string{"10.1.0.1:6789", "10.1.0.2:6789", "[fd00::3]:6789"},
				}}
			}),
			gone: []string{`source name="vms/ceph1-root" protocol="rbd"`, `snapshot name="base"`},
			come: []string{`source name="vms/other" protocol="rbd"`},
		},
		{
			name: "default ports", sample: "ceph",
			want: change("ceph", "vda", func(d *Disk) { d.Source.Network.Hosts = []string{"10.0.0.1"} }),
		},
		{
			name: "hosts", sample: "ceph",
			want: change("ceph", "vda", func(d *Disk) { d.Source.Network.Hosts = []string{"[fd00::1]:1", "h"} }),
			gone: []string{`host name="10.0.0.1"`},
			come: []string{`host name="fd00::1" port="1"`, `host name="h" port="10809"`},
		},
		{
			name: "the old image's backing chain goes", sample: "disks-of-all-kinds",
			want: change("disks-of-all-kinds", "vdd", func(d *Disk) { d.Source.File = "/srv/vm/flat.qcow2" }),
			gone: []string{
				`source file="/srv/vm/overlay.qcow2"`, `backingStore type="file"`, `format type="qcow2"`,
				`source file="/srv/vm/base.qcow2"`, "backingStore",
			},
			come: []string{`source file="/srv/vm/flat.qcow2"`},
		},
		{
			name: "another source has its own format", sample: "virt-install-q35",
			want: change("virt-install-q35", "vda", func(d *Disk) { d.Source, d.Format = DiskSource{File: "/new.raw"}, "" }),
			gone: []string{
				`source file="/var/lib/libvirt/images/debian12.qcow2"`, `driver discard="unmap" name="qemu" type="qcow2"`,
			},
			come: []string{`source file="/new.raw"`, `driver discard="unmap" name="qemu" type="raw"`},
		},
		{
			name: "medium", sample: "i440fx-ide",
			want: change("i440fx-ide", "hdc", func(d *Disk) { d.Source = DiskSource{File: "/x.iso"} }),
			gone: []string{`disk device="cdrom" type="block"`, `source dev="/dev/sr0" startupPolicy="optional"`},
			come: []string{`disk device="cdrom" type="file"`, `source file="/x.iso" startupPolicy="optional"`},
		},
		{
			name: "no medium", sample: "ceph", want: change("ceph", "sdb", func(d *Disk) { d.Source = DiskSource{} }),
			gone: []string{
				`disk device="cdrom" type="network"`, `source name="iso/debian.iso" protocol="https" query="a=b"`,
				`host name="example.org" port="443"`, `ssl verify="no"`, "cookies", `cookie name="test" "x"`,
			},
			come: []string{`disk device="cdrom" type="file"`},
		},
		{
			name: "bus", sample: "uefi-secboot", want: change("uefi-secboot", "vda", func(d *Disk) { d.Bus = "sata" }),
			gone: []string{
				`driver cache="none" discard="unmap" io="native" iothread="1" name="qemu" queues="8" type="raw"`,
				`target bus="virtio" dev="vda"`, `address bus="0x04" domain="0x0000" function="0x0" slot="0x00" type="pci"`,
			},
			come: []string{
				`driver cache="none" discard="unmap" io="native" name="qemu" type="raw"`, `target bus="sata" dev="sda"`,
				"metadata", vmElement("0b9c0f4e-7a51-4a0c-a3ff-08e7c2b7a001"), "{urn:virtfleet:1}devices",
				`{urn:virtfleet:1}device id="sda" key="vda"`,
			},
		},
		{
			name: "cache", sample: "uefi-secboot",
			want: change("uefi-secboot", "vda", func(d *Disk) {
				d.Cache, d.Format, d.Serial, d.ReadOnly, d.BootOrder = "writeback", "qcow2", new("1"), new(true), new(7)
			}),
			gone: []string{
				`driver cache="none" discard="unmap" io="native" iothread="1" name="qemu" queues="8" type="raw"`,
				`boot order="1"`,
			},
			come: []string{
				`driver cache="writeback" discard="unmap" iothread="1" name="qemu" queues="8" type="qcow2"`,
				`serial "1"`, "readonly", `boot order="7"`,
			},
		},
		{
			name: "new ones", sample: "i440fx-ide",
			want: with("i440fx-ide", func(disks map[string]Disk) {
				disks["a"] = Disk{Source: DiskSource{File: "/a.qcow2"}, Serial: new("s")}
				disks["b"] = Disk{Source: DiskSource{Block: "/dev/b"}, Bus: "scsi"}
				disks["c"] = Disk{Device: "cdrom"}
			}),
			come: []string{
				`disk device="disk" type="file"`, `driver discard="unmap" error_policy="stop" name="qemu" type="qcow2"`,
				`source file="/a.qcow2"`, `target bus="virtio" dev="vda"`, `alias name="ua-disk-a"`, `serial "s"`,
				`disk device="disk" type="block"`,
				`driver cache="none" discard="unmap" error_policy="stop" io="native" name="qemu" type="raw"`,
				`source dev="/dev/b"`, `target bus="scsi" dev="sda"`, `alias name="ua-disk-b"`,
				`controller index="0" model="virtio-scsi" type="scsi"`,
				`disk device="cdrom" type="file"`, `driver name="qemu" type="raw"`, `target bus="ide" dev="hdb"`,
				`alias name="ua-disk-c"`, "readonly",
			},
		},
		{
			name: "a kept source of another kind", sample: "disks-of-all-kinds",
			want: change("disks-of-all-kinds", "vdb", func(d *Disk) { d.Source = DiskSource{} }),
		},
		{
			name: "another source of another kind", sample: "disks-of-all-kinds",
			want:    change("disks-of-all-kinds", "vdb", func(d *Disk) { d.Source.Other = "volume:x" }),
			problem: "disks.vdb",
		},
		{
			name: "a new source of another kind", sample: "minimal",
			want: Spec{Disks: map[string]Disk{"x": {Source: DiskSource{Other: "volume:x"}}}}, problem: "disks.x",
		},
		{name: "no source", sample: "minimal", want: Spec{Disks: map[string]Disk{"x": {}}}, problem: "disks.x"},
		{
			name: "no place on the bus", sample: "minimal",
			want: Spec{Disks: map[string]Disk{
				"a": {Device: "floppy"}, "b": {Device: "floppy"}, "c": {Device: "floppy"},
			}},
			problem: "disks.c.bus",
		},
		{
			name: "a CD-ROM is read-only, declared or not", sample: "virt-install-q35",
			want:    Spec{Disks: map[string]Disk{"sda": {ReadOnly: new(false)}}},
			problem: "disks.sda.read_only",
		},
		{
			name: "a declared boot order replaces the older kind", sample: "virt-install-q35",
			want: Spec{Disks: map[string]Disk{
				"vda": {Source: DiskSource{File: "/var/lib/libvirt/images/debian12.qcow2"}, BootOrder: new(1)},
				"sda": {Device: "cdrom"},
			}},
			gone: []string{`boot dev="hd"`}, come: []string{`boot order="1"`},
		},
		{
			name: "an order moves from one to another", sample: "uefi-secboot",
			want: with("uefi-secboot", func(disks map[string]Disk) {
				vda, sdb := disks["vda"], disks["sdb"]
				vda.BootOrder, sdb.BootOrder = nil, new(1)
				disks["vda"], disks["sdb"] = vda, sdb
			}),
			gone: []string{`boot order="2"`},
		},
		{
			name: "an order that a device has that isn't managed", sample: "hostdev",
			want:    change("hostdev", "vda", func(d *Disk) { d.BootOrder = new(1) }),
			problem: "disks.vda.boot_order",
		},
	})
}

// vmElement is the element of the metadata that was written for a VM.
func vmElement(uuid string) string { return `{urn:virtfleet:1}vm uuid="` + uuid + `" version="1"` }

// dmacvicarVM is the UUID of the sample.
const dmacvicarVM = "e0b1c2d3-e4f5-4678-9abc-def01234567b"

func TestApply_interfaces(t *testing.T) {
	t.Parallel()
	with := func(name string, change func(map[string]Interface)) Spec {
		nics := readDevices(sample(t, name), interfaceKind, readInterface)
		change(nics)
		return Spec{Interfaces: nics}
	}
	runApplyCases(t, []applyCase{
		{
			name: "network", sample: "uefi-secboot",
			want: Spec{Interfaces: map[string]Interface{"net0": {Network: "other"}}},
			gone: []string{`source network="ovs" portgroup="vlan-10"`}, come: []string{`source network="other"`},
		},
		{
			name: "bridge", sample: "hostdev",
			want: with("hostdev", func(nics map[string]Interface) { nics["net1"] = Interface{Bridge: "br7"} }),
			gone: []string{`interface type="network"`, `source network="default"`},
			come: []string{`interface type="bridge"`, `source bridge="br7"`},
		},
		{
			name: "model, MAC and link", sample: "hostdev",
			want: with("hostdev", func(nics map[string]Interface) {
				nics["net1"] = Interface{Model: "e1000e", MAC: "52:54:00:6D:90:99", LinkUp: new(false)}
			}),
			gone: []string{`model type="virtio"`, `driver name="vhost" queues="4"`, `mac address="52:54:00:6d:90:03"`},
			come: []string{`model type="e1000e"`, `mac address="52:54:00:6d:90:99"`, `link state="down"`},
		},
		{
			name: "link up again", sample: "i440fx-ide",
			want: Spec{Interfaces: map[string]Interface{"net0": {LinkUp: new(true)}}},
			gone: []string{`link state="down"`}, come: []string{`link state="up"`},
		},
		{
			name: "all go", sample: "dmacvicar", want: Spec{Interfaces: map[string]Interface{}},
			gone: []string{
				`interface type="network"`, `interface type="network"`, `mac address="52:54:00:36:c0:65"`,
				`mac address="52:54:00:36:c0:66"`, `source network="tf-net"`, `source network="tf-net"`,
				`model type="virtio"`, `model type="virtio"`,
				`address bus="0x00" domain="0x0000" function="0x0" slot="0x03" type="pci"`,
				`address bus="0x00" domain="0x0000" function="0x0" slot="0x07" type="pci"`,
			},
		},
		{
			name: "new ones", sample: "minimal",
			want: Spec{Interfaces: map[string]Interface{"u": {User: true, MAC: "52:54:00:00:00:01", Model: "rtl8139"}}},
			come: []string{
				"devices", `interface type="user"`, `mac address="52:54:00:00:00:01"`, `model type="rtl8139"`,
				`alias name="ua-net-u"`,
			},
		},
		{
			name: "no connection", sample: "minimal",
			want: Spec{Interfaces: map[string]Interface{"x": {}}}, problem: "interfaces.x",
		},
		{
			name: "a connection of another kind can't be made", sample: "minimal",
			want: Spec{Interfaces: map[string]Interface{"x": {Other: "direct:dev=eth0"}}}, problem: "interfaces.x",
		},
		{
			name: "nor changed", sample: "macvtap",
			want: with("macvtap", func(nics map[string]Interface) {
				nics["net0"] = Interface{Other: "direct:dev=eth1"}
			}), problem: "interfaces.net0",
		},
		{
			name: "the first goes: the others keep their keys", sample: "dmacvicar",
			want: Spec{Interfaces: map[string]Interface{"net1": {Network: "tf-net"}}},
			gone: []string{
				`interface type="network"`, `mac address="52:54:00:36:c0:65"`, `source network="tf-net"`, `model type="virtio"`,
				`address bus="0x00" domain="0x0000" function="0x0" slot="0x03" type="pci"`,
			},
			come: []string{
				"metadata", vmElement(dmacvicarVM), "{urn:virtfleet:1}devices",
				`{urn:virtfleet:1}device id="52:54:00:36:c0:66" key="net1"`,
			},
		},
	})
}

// Devices of a VM that came from elsewhere get the keys they are declared under, and stay the same devices.
func TestApply_namesForeignDevices(t *testing.T) {
	t.Parallel()
	runApplyCases(t, []applyCase{{
		name: "disks and interfaces", sample: "dmacvicar",
		want: Spec{
			Disks: map[string]Disk{
				"root": {Source: DiskSource{Other: "volume:pool=default,volume=coreos.qcow2"}},
				"init": {Device: "cdrom", Source: DiskSource{File: "/var/lib/libvirt/images/cloudinit.iso"}},
			},
			Interfaces: map[string]Interface{
				"front": {MAC: "52:54:00:36:C0:66"}, "back": {Network: "tf-net"},
			},
		},
		come: []string{
			"metadata", vmElement(dmacvicarVM), "{urn:virtfleet:1}devices", `{urn:virtfleet:1}device id="vda" key="root"`,
			`{urn:virtfleet:1}device id="hdd" key="init"`,
			`{urn:virtfleet:1}device id="52:54:00:36:c0:66" key="front"`,
			`{urn:virtfleet:1}device id="52:54:00:36:c0:65" key="back"`,
		},
	}})
	// One that has our alias gets another.
	d := sample(t, "disks-of-all-kinds")
	disks := d.readDisks()
	disks["journal"] = disks["log_2"]
	delete(disks, "log_2")
	if err := d.Apply(Spec{Disks: disks}); err != nil {
		t.Fatal(err)
	}
	if got := d.readDisks()["journal"].Target; got != "vde" || len(d.Metadata().Devices) > 0 {
		t.Errorf("journal is %q, names are %v", got, d.Metadata().Devices)
	}
}

func TestKeyed_clashesAreSolvedAlike(t *testing.T) {
	t.Parallel()
	keys := func(d *Definition, k kind) []string {
		var found []string
		for _, dev := range d.keyed(k, d.Metadata().Devices) {
			found = append(found, dev.key)
		}
		return found
	}
	if diff := cmp.Diff([]string{"vda", "root", "disk2", "vdb", "vdx"}, keys(sample(t, "strange"), diskKind)); diff != "" {
		t.Error(diff)
	}
	want := []string{"net0-2", "front", "net0"}
	if diff := cmp.Diff(want, keys(sample(t, "controllers"), interfaceKind)); diff != "" {
		t.Error(diff)
	}
}

func TestFreeTarget(t *testing.T) {
	t.Parallel()
	d := sample(t, "controllers") // sda is SCSI unit 0, sdz SATA unit 1.
	for bus, want := range map[string]string{"virtio": "vda", "scsi": "sdb", "sata": "sdc", "ide": "hda", "usb": "sdb"} {
		if got := d.freeTarget(bus, nil, nil); got != want {
			t.Errorf("%s: %s, not %s", bus, got, want)
		}
	}
	if got := d.freeTarget("virtio", map[string]bool{"vda": true}, nil); got != "vdb" {
		t.Errorf("next to a disk that goes: %s", got)
	}
	if got := diskLetters(25) + " " + diskLetters(26) + " " + diskLetters(26+26*26); got != "z aa aaa" {
		t.Errorf("letters: %s", got)
	}
	disks := map[string]Disk{}
	for i := range 28 {
		disks[diskLetters(i)] = Disk{Source: DiskSource{File: "/" + diskLetters(i)}}
	}
	if err := d.Apply(Spec{Disks: disks}); err != nil {
		t.Fatal(err)
	}
	targets := map[string]bool{}
	for _, disk := range d.readDisks() {
		targets[disk.Target] = true
	}
	if len(targets) != 28 || !targets["vdz"] || !targets["vdab"] {
		t.Errorf("targets: %v", slices.Sorted(maps.Keys(targets)))
	}
}

func TestNewMAC(t *testing.T) {
	t.Parallel()
	a, b := sample(t, "minimal"), sample(t, "virt-install-q35")
	mac := a.newMAC("lan")
	if !strings.HasPrefix(mac, "52:54:00:") || mac != a.newMAC("lan") {
		t.Errorf("not reproducible: %s", mac)
	}
	if mac == a.newMAC("wan") || mac == b.newMAC("lan") {
		t.Error("the same for another key or VM")
	}
	if err := a.Apply(Spec{Interfaces: map[string]Interface{"x": {User: true, MAC: mac}}}); err != nil {
		t.Fatal(err)
	}
	if mac == a.newMAC("lan") {
		t.Error("taken, and given again")
	}
}

// A network whose forward mode is a bridge or a device of the host shows as that in what runs, together with its name.
func TestInterface_runningOnANetworkOfTheHost(t *testing.T) {
	t.Parallel()
	const before, after = `<domain type="qemu"><name>v</name><uuid>6a9ae2dc-22f3-4d0c-a8d8-0a9b2f1dca10</uuid>` +
		`<os><type machine="q35">hvm</type></os><devices>`, `</devices></domain>`
	nic := func(kind, source string) string {
		return `<interface type="` + kind + `"><mac address="52:54:00:00:00:01"/>` + source +
			`<model type="virtio"/></interface>`
	}
	persistent := parse(t, before+nic("network", `<source network="lan" portgroup="p"/>`)+after)
	for kind, source := range map[string]string{
		"bridge":  `<source network="lan" portgroup="p" portid="7d" bridge="br0"/>`,
		"direct":  `<source network="lan" portgroup="p" portid="7d" dev="eth0" mode="bridge"/>`,
		"network": `<source network="lan" portgroup="p" portid="7d" bridge="virbr0"/>`,
	} {
		live := parse(t, strings.Replace(before, "<domain ", `<domain id="1" `, 1)+nic(kind, source)+after)
		if pending := Pending(live.Spec(), persistent.Spec()); len(pending) > 0 {
			t.Errorf("%s: a restart would change %v", kind, pending)
		}
		down := Spec{Interfaces: map[string]Interface{"net0": {Network: "lan", LinkUp: new(false)}}}
		steps, err := LiveSteps(live, persistent, persistent, down)
		if err != nil || len(steps) != 1 || !strings.Contains(steps[0].XML, `type="network"`) ||
			!strings.Contains(steps[0].XML, `network="lan"`) {
			t.Errorf("%s: %v, %v", kind, steps, err)
		}
	}
}

// The two interfaces of virtio's failover have one address.
func TestInterface_sharedAddress(t *testing.T) {
	t.Parallel()
	const xml = `<domain type="qemu"%s><name>v</name><os><type machine="q35">hvm</type></os><devices>` +
		`<interface type="network"><mac address="52:54:00:00:00:01"/><source network="lan"/><model type="virtio"/>` +
		`<teaming type="persistent"/><alias name="ua-backup"/></interface>` +
		`<interface type="hostdev" managed="yes"><mac address="52:54:00:00:00:01"/><source><address type="pci" domain="0" ` +
		`bus="3" slot="0" function="1"/></source><teaming type="transient" persistent="ua-backup"/></interface>` +
		`</devices></domain>`
	persistent, live := parse(t, fmt.Sprintf(xml, "")), parse(t, fmt.Sprintf(xml, ` id="1"`))
	p, l := persistent.Spec(), live.Spec()
	for range 20 { // Maps have no order.
		if pending := Pending(l, p); len(pending) > 0 {
			t.Fatal(pending)
		}
		if merged := Merge(&p, &l, &p, nil); merged.Interfaces["net0"].Network != "lan" || len(merged.Interfaces) != 2 {
			t.Fatal(merged.Interfaces)
		}
	}
	before := output(t, persistent)
	if err := persistent.Apply(p); err != nil || output(t, persistent) != before {
		t.Errorf("its own spec changes it: %v", err)
	}
	for _, problem := range p.Validate() {
		t.Error(problem)
	}
}

// The two interfaces of virtio's failover have one address. Which of them is declared follows from its role, whatever
// the order of the keys and of the definition.
func TestInterface_pairsByRole(t *testing.T) {
	t.Parallel()
	const (
		mac  = "52:54:00:00:00:01"
		slow = `<interface type="network"><mac address="` + mac + `"/><source network="lan"/><model type="virtio"/>` +
			`<teaming type="persistent"/><alias name="SLOW"/></interface>`
		fast = `<interface type="hostdev" managed="yes"><mac address="` + mac + `"/><source><address type="pci" ` +
			`domain="0x0000" bus="0x03" slot="0x00" function="0x1"/></source><teaming type="transient" persistent="SLOW"/>` +
			`<alias name="FAST"/></interface>`
	)
	definition := func(id, devices, slowAlias, fastAlias string) *Definition {
		devices = strings.NewReplacer("SLOW", slowAlias, "FAST", fastAlias).Replace(devices)
		return parse(t, `<domain type="qemu"`+id+`><name>v</name><os><type machine="q35">hvm</type></os><devices>`+
			devices+`</devices></domain>`)
	}
	for name, tt := range map[string]struct {
		devices, slowAlias, fastAlias string
		slow, fast                    string // the declared keys
		persistent                    string // what the transient interface names
	}{
		"imported, as in the alphabet":  {slow + fast, "ua-backup", "hostdev0", "a", "b", "ua-backup"},
		"imported, the other way round": {slow + fast, "ua-backup", "hostdev0", "b", "a", "ua-backup"},
		"imported, the fast one first":  {fast + slow, "ua-backup", "hostdev0", "a", "b", "ua-backup"},
		"fast first, as in alphabet":    {fast + slow, "ua-backup", "hostdev0", "b", "a", "ua-backup"},
		"renamed":                       {slow + fast, "ua-net-slow", "ua-net-fast", "z", "a", "z"},
		"renamed, as in the alphabet":   {slow + fast, "ua-net-slow", "ua-net-fast", "a", "z", "a"},
		"keys swapped":                  {slow + fast, "ua-net-b", "ua-net-a", "a", "b", "a"},
	} {
		persistent, live := definition("", tt.devices, tt.slowAlias, tt.fastAlias),
			definition(` id="1"`, tt.devices, tt.slowAlias, tt.fastAlias)
		want := Spec{Interfaces: map[string]Interface{
			tt.slow: {Network: "lan", MAC: mac, Values: Values{"teaming.type": "persistent"}},
			tt.fast: {HostDevice: "0000:03:00.1", MAC: mac, Values: Values{
				"teaming.type": "transient", "teaming.persistent": tt.persistent,
			}},
		}}
		was := live.Spec()
		before := persistent.Clone()
		for _, c := range Changes(before.Spec(), want) {
			if c.Why != onlyRenamed {
				t.Errorf("%s: %s: %s", name, c.Path, c.Why)
			}
		}
		if err := persistent.Apply(want); err != nil {
			t.Fatal(name, err)
		}
		got := persistent.Spec()
		if got.Interfaces[tt.slow].Network != "lan" || got.Interfaces[tt.fast].HostDevice != "0000:03:00.1" {
			t.Errorf("%s: %s", name, output(t, persistent))
		}
		if got := persistent.elements(interfaceKind); attr(got[0], "type") != attr(live.elements(interfaceKind)[0], "type") {
			t.Errorf("%s: the devices are rebuilt: %s", name, output(t, persistent))
		}
		after := persistent.Spec()
		aligned := AlignKeys(&was, &after).Interfaces
		if aligned[tt.slow].Network != "lan" || aligned[tt.fast].HostDevice == "" {
			t.Errorf("%s: what runs is taken for %+v", name, aligned)
		}
		if pending := Pending(was, after); len(pending) > 0 {
			t.Errorf("%s: pending is %v", name, pending)
		}
		if err := persistent.RecordRunning(before, want); err != nil {
			t.Fatal(name, err)
		}
		// The device of the host is plugged out and in again: the running interface that it stands for has its old alias.
		live.AdoptNames(persistent)
		fast := live.elements(interfaceKind)[strings.Index(tt.devices, fast)/len(slow)]
		if got := live.Spec(); len(Pending(got, after)) > 0 || len(Changes(*AlignKeys(&got, &after), want)) > 0 {
			t.Errorf("%s: pending with the new keys is %v, %v", name, Pending(got, after), Changes(got, want))
		}
		drop(fast)
		steps, err := LiveSteps(live, persistent, persistent, want)
		if err != nil || len(steps) != 1 || !strings.Contains(steps[0].XML, `persistent="`+tt.slowAlias+`"`) {
			t.Errorf("%s: the steps are %+v, %v", name, steps, err)
		}
	}
}
