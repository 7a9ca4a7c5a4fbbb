package domain

import (
	"strings"
	"testing"
)

// TestInterface_kinds: an interface of each kind is made, read back, and left again for a network without a trace.
func TestInterface_kinds(t *testing.T) {
	t.Parallel()
	const mac = "52:54:00:00:00:01"
	for _, test := range []struct {
		nic  Interface
		want string
	}{
		{Interface{Network: "lan"}, `<interface type="network">M<source network="lan"/><model type="virtio"/>`},
		{Interface{Bridge: "br0"}, `<interface type="bridge">M<source bridge="br0"/><model type="virtio"/>`},
		{Interface{User: true}, `<interface type="user">M<model type="virtio"/>`},
		{
			Interface{Direct: "eth0", DirectMode: "bridge"},
			`<interface type="direct">M<source dev="eth0" mode="bridge"/><model type="virtio"/>`,
		},
		{
			Interface{HostDevice: "0000:03:00.1"}, `<interface type="hostdev" managed="yes">M<source>` +
				`<address domain="0x0000" bus="0x03" slot="0x00" function="0x1" type="pci"/></source>`,
		},
		{
			Interface{VDPA: "/dev/vhost-vdpa-0"},
			`<interface type="vdpa">M<source dev="/dev/vhost-vdpa-0"/><model type="virtio"/>`,
		},
		{
			Interface{VHostUser: "/run/switch.sock", VHostUserMode: "client"},
			`<interface type="vhostuser">M<source type="unix" path="/run/switch.sock" mode="client"/><model type="virtio"/>`,
		},
	} {
		name := test.nic.attribute()
		test.nic.MAC = mac
		d := parse(t, `<domain type="qemu"><name>n</name><devices/></domain>`)
		want := Spec{Interfaces: map[string]Interface{"lan": test.nic}}
		if problems := want.Validate(); len(problems) > 0 {
			t.Errorf("%s: %v", name, problems)
		}
		if err := d.Apply(want); err != nil {
			t.Fatal(err)
		}
		if got := output(t, d); !strings.Contains(got, strings.Replace(test.want, "M", `<mac address="`+mac+`"/>`, 1)) {
			t.Errorf("%s is written as\n%s", name, got)
		}
		if got := d.Spec().Interfaces["lan"]; !sameConnection(got, test.nic) {
			t.Errorf("%s is read as %+v", name, got)
		}
		if changes := Changes(d.Spec(), want); len(changes) > 0 {
			t.Errorf("%s: still to be changed: %v", name, changes)
		}
		lan := Spec{Interfaces: map[string]Interface{"lan": {Network: "lan", MAC: mac}}}
		changes := Changes(d.Spec(), lan)
		if name != "network" && (len(changes) != 1 || changes[0].Path != "interfaces.lan.network") {
			t.Errorf("from %s to a network: %v", name, changes)
		}
		if err := d.Apply(lan); err != nil {
			t.Fatal(err)
		}
		if got := output(t, d); !strings.Contains(got, `<source network="lan"/>`) ||
			!strings.Contains(got, `<model type="virtio"/>`) || strings.Contains(got, "managed") {
			t.Errorf("%s leaves something:\n%s", name, got)
		}
	}
}

func TestInterface_kindsThatAreRefused(t *testing.T) {
	t.Parallel()
	for problem, nic := range map[string]Interface{
		"only one of":                  {HostDevice: "0000:03:00.1", VDPA: "/dev/vhost-vdpa-0"},
		"isn't a PCI address":          {HostDevice: "03:00.1"},
		"sees the device of the host":  {HostDevice: "0000:03:00.1", Model: "virtio"},
		"isn't an absolute path":       {VDPA: "vhost-vdpa-0"},
		"It needs a mode":              {VHostUser: "/run/switch.sock"},
		`requires type = "passt"`:      {User: true, Values: Values{"backend.device": "eth0"}},
		"Only an interface with user":  {Network: "lan", Values: Values{"backend.type": "passt"}},
		"transient interface of a":     {HostDevice: "0000:03:00.1", Values: Values{"teaming.type": "transient"}},
		"user mode network has no mtu": {User: true, Values: Values{"mtu": "1400"}},
	} {
		all := Spec{Interfaces: map[string]Interface{"lan": nic}}.Validate()
		if len(all) == 0 || !strings.Contains(all[len(all)-1].Error(), problem) {
			t.Errorf("%+v: %v, want %q", nic, all, problem)
		}
	}
}

// TestInterface_pair: a device of the host and the interface that stands in for it have one address.
func TestInterface_pair(t *testing.T) {
	t.Parallel()
	const mac = "52:54:00:00:00:01"
	want := Spec{Interfaces: map[string]Interface{
		"fast": {
			HostDevice: "0000:03:00.1", MAC: mac, Values: Values{"teaming.type": "transient", "teaming.persistent": "backup"},
		},
		"backup": {Network: "lan", MAC: mac, Values: Values{"teaming.type": "persistent"}},
	}}
	if problems := want.Validate(); len(problems) > 0 {
		t.Error(problems)
	}
	d := parse(t, `<domain type="qemu"><name>n</name><devices/></domain>`)
	for range 2 {
		if err := d.Apply(want); err != nil {
			t.Fatal(err)
		}
	}
	if got := output(t, d); strings.Count(got, "<interface") != 2 ||
		!strings.Contains(got, `<teaming type="transient" persistent="ua-net-backup"/>`) {
		t.Error(got)
	}
	if changes := Changes(d.Spec(), want); len(changes) > 0 {
		t.Errorf("still to be changed: %v", changes)
	}
	if devices := d.Mobility().HostDevices; len(devices) > 0 {
		t.Errorf("the pair keeps the VM from moving: %v", devices)
	}
}
