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
	passt := func(ports string) Values { return Values{"backend.type": "passt", "backend.tcp_ports": ports} }
	for problem, nic := range map[string]Interface{
		"only one of":                  {HostDevice: "0000:03:00.1", VDPA: "/dev/vhost-vdpa-0"},
		"isn't a PCI address":          {HostDevice: "03:00.1"},
		"sees the device of the host":  {HostDevice: "0000:03:00.1", Model: "virtio"},
		"isn't an absolute path":       {VDPA: "vhost-vdpa-0"},
		"It needs a mode":              {VHostUser: "/run/switch.sock"},
		`requires type = "passt"`:      {User: true, Values: Values{"backend.device": "eth0"}},
		"before the /":                 {User: true, Values: passt(`["nonsense/80"]`)},
		"isn't ports such as":          {User: true, Values: passt(`["80-"]`)},
		"from 1 to 65535":              {User: true, Values: passt(`["70000"]`)},
		"ends before it begins":        {User: true, Values: passt(`["90-80"]`)},
		"ports above 65535":            {User: true, Values: passt(`["1-9:65530"]`)},
		"excludes ports and says":      {User: true, Values: passt(`["80,~81:82"]`)},
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

// TestSupplied: an interface of a running VM that is connected to another network gets the VLAN of that one, unless it
// has one of its own, and keeps nothing of what the old one supplied.
func TestSupplied(t *testing.T) {
	t.Parallel()
	const tagged, trunk = `<network><name>switch</name><vlan><tag id="1"/></vlan>`,
		`<vlan trunk="yes"><tag id="46"/><tag id="47"/></vlan>`
	domain := func(id, kind, source, parts string) *Definition {
		return parse(t, `<domain type="qemu"`+id+`><name>v</name><os><type>hvm</type></os><devices><interface type="`+kind+
			`"><mac address="52:54:00:00:00:01"/>`+source+parts+`<model type="virtio"/></interface></devices></domain>`)
	}
	const supplied = `<vlan><tag id="45"/></vlan><bandwidth><inbound average="9"/></bandwidth>`
	to := Interface{Network: "switch"}
	for name, test := range map[string]struct {
		want         Interface
		own, groups  string
		network, has string // has is what the interface has of VLANs and limits
	}{
		"the default group": {to, "", `<portgroup name="eng" default="yes">` + trunk + `</portgroup>`, "switch", trunk},
		"no default group": {
			to, "", `<portgroup name="eng">` + trunk + `</portgroup>`, "switch", `<vlan><tag id="1"/></vlan>`,
		},
		"a VLAN of its own": {to, `<vlan><tag id="7"/></vlan>`, "", "", `<vlan><tag id="7"/></vlan>`},
		"a bridge":          {Interface{Bridge: "br0"}, "", "", "", ""},
		"only the link":     {Interface{Network: "old", LinkUp: new(false)}, "", "", "", supplied},
	} {
		live := domain(` id="1"`, "bridge", `<source network="old" portid="7d" bridge="ovs0"/>`, supplied)
		persistent := domain("", "network", `<source network="old"/>`, test.own)
		want := Spec{Interfaces: map[string]Interface{"net0": test.want}}
		if err := persistent.Apply(want); err != nil {
			t.Fatal(err)
		}
		steps, err := LiveSteps(live, persistent, persistent, want)
		if err != nil || len(steps) != 1 || steps[0].Network != test.network {
			t.Errorf("%s: %+v, %v", name, steps, err)
			continue
		}
		step := steps[0]
		if step.Network != "" {
			if step, err = step.Supplied(tagged + test.groups + `</network>`); err != nil {
				t.Fatal(err)
			}
		}
		var parts []string
		for _, part := range children(parse(t, "<domain><devices>"+step.XML+"</devices></domain>").devices("interface")[0],
			"vlan", "bandwidth") {
			parts = append(parts, render(part))
		}
		if got := strings.Join(parts, ""); strings.ReplaceAll(got, "\n", "") != test.has {
			t.Errorf("%s: it has %q, want %q", name, got, test.has)
		}
	}
}

// TestInterface_virtualPortNeedsARestart: where libvirt refuses to connect an interface that has a virtual port, or
// gets one, another change in the same apply is made live, and leaves the connection as it is.
func TestInterface_virtualPortNeedsARestart(t *testing.T) {
	t.Parallel()
	const port = `<virtualport type="openvswitch"/>`
	live := func(port string) *Definition {
		return parse(t, `<domain type="qemu" id="1"><name>v</name><os><type>hvm</type></os><devices>`+
			`<interface type="bridge"><mac address="52:54:00:00:00:01"/><source network="old" portid="7d" bridge="b"/>`+
			port+`<model type="virtio"/></interface></devices></domain>`)
	}
	for name, test := range map[string]struct {
		live *Definition
		want Interface
		free bool // the running VM takes the connection
	}{
		"away from the switch": {live(port).FixVirtualPorts(), Interface{Network: "new"}, false},
		"to the switch": {
			live("").FixVirtualPorts(),
			Interface{Network: "new", Values: Values{"virtual_port.type": "openvswitch"}},
			false,
		},
		"no switch":       {live("").FixVirtualPorts(), Interface{Network: "new"}, true},
		"a newer libvirt": {live(port), Interface{Network: "new"}, true},
	} {
		test.want.LinkUp = new(false)
		spec := Spec{Interfaces: map[string]Interface{"net0": test.want}}
		for _, c := range Changes(test.live.Spec(), spec) {
			if c.Path == "interfaces.net0.network" && c.Live != test.free {
				t.Errorf("%s: %+v", name, c)
			}
		}
		steps, err := LiveSteps(test.live, nil, nil, spec)
		if err != nil || len(steps) != 1 || strings.Contains(steps[0].XML, `network="new"`) != test.free {
			t.Errorf("%s: %v, %v", name, steps, err)
		}
	}
}

// TestInterface_portGroupNeedsARestart: since 10.6.0 libvirt refuses another port group for an interface of a running
// VM. Another change in the same apply is made live, and leaves the connection as it is.
func TestInterface_portGroupNeedsARestart(t *testing.T) {
	t.Parallel()
	live := parse(t, `<domain type="qemu" id="1"><name>v</name><os><type>hvm</type></os><devices>`+
		`<interface type="bridge"><mac address="52:54:00:00:00:01"/>`+
		`<source network="switch" portgroup="ops" portid="7d" bridge="ovs0"/>`+
		`<model type="virtio"/></interface></devices></domain>`)
	for name, want := range map[string]Interface{
		"another group":   {Network: "switch", Values: Values{"port_group": "eng"}},
		"no group":        {Network: "switch", Values: Values{"port_group": ""}},
		"another network": {Network: "other"},
		"a bridge":        {Bridge: "br0"},
	} {
		want.LinkUp = new(false)
		spec := Spec{Interfaces: map[string]Interface{"net0": want}}
		for _, c := range Changes(live.Spec(), spec) {
			if c.Live != (c.Path == "interfaces.net0.link_up") {
				t.Errorf("%s: %+v", name, c)
			}
		}
		steps, err := LiveSteps(live, nil, nil, spec)
		if err != nil || len(steps) != 1 || !strings.Contains(steps[0].XML, `network="switch" portgroup="ops"`) {
			t.Errorf("%s: %v, %v", name, steps, err)
		}
	}
}

// An interface that changes its kind keeps nothing that only the old kind has: the driver and the teaming of a device
// of the host, or the model and the driver of a virtual card.
func TestApply_interfaceOfAnotherKind(t *testing.T) {
	t.Parallel()
	const before = `<domain type="qemu"><name>v</name><memory>65536</memory>
  <os><type arch="x86_64" machine="pc-q35-7.2">hvm</type></os><devices>
  <interface type="hostdev" managed="yes"><mac address="52:54:00:00:00:01"/><driver name="vfio"/>
  <source><address type="pci" domain="0x0000" bus="0x03" slot="0x00" function="0x1"/></source>
  <teaming type="transient" persistent="ua-net-b"/><alias name="ua-net-a"/></interface>
  <interface type="bridge"><mac address="52:54:00:00:00:02"/><source bridge="br0"/><model type="virtio"/>
  <driver name="vhost" queues="2"/><alias name="ua-net-b"/></interface></devices></domain>`
	d := parse(t, before)
	want := Spec{Interfaces: map[string]Interface{"a": {Network: "lan"}, "b": {HostDevice: "0000:03:00.2"}}}
	if err := d.Apply(want); err != nil {
		t.Fatal(err)
	}
	xml, err := d.XML()
	if err != nil {
		t.Fatal(err)
	}
	first, second, _ := strings.Cut(xml, "</interface>")
	for _, old := range []string{"vfio", "teaming", "managed", "hostdev", "<address"} {
		if strings.Contains(first, old) {
			t.Errorf("%s is in the interface of a network:\n%s", old, first)
		}
	}
	for _, old := range []string{"vhost", "<model", "br0"} {
		if strings.Contains(second, old) {
			t.Errorf("%s is in the device of the host:\n%s", old, second)
		}
	}
	if !strings.Contains(second, `managed="yes"`) {
		t.Errorf("libvirt isn't told to lend the device:\n%s", second)
	}
	if left := Changes(d.Spec(), want); len(left) > 0 {
		t.Errorf("left is %+v", left)
	}
}

// TestInterface_lent: libvirt doesn't show which network has lent a running VM a device of the host (SR-IOV). It is the
// persistent definition's, so nothing is pending, and nothing has drifted. The VM can't be moved to another network
// while it runs.
func TestInterface_lent(t *testing.T) {
	t.Parallel()
	domain := func(id, kind, source, rest string) *Definition {
		return parse(t, `<domain type="kvm"`+id+`><name>v</name><os><type machine="q35">hvm</type></os><devices>`+
			`<interface type="`+kind+`><mac address="52:54:00:00:00:01"/>`+source+rest+`</interface></devices></domain>`)
	}
	const (
		source = `<source><address type="pci" domain="0x0000" bus="0x03" slot="0x10" function="0x1"/></source>`
		model  = `<model type="virtio"/><alias name="ua-net-lan"/>`
	)
	persistent := domain("", `network"`, `<source network="sriov"/>`, model)
	live := domain(` id="1"`, `hostdev" managed="yes"`, `<driver name="vfio"/>`+source, model)
	defined, runs := persistent.Spec(), live.Spec()
	if pending := Pending(runs, defined); len(pending) > 0 {
		t.Errorf("pending: %v", pending)
	}
	for name, prior := range map[string]*Spec{"the state": &defined, "no state": nil} {
		if got := Merge(&defined, &runs, prior, nil).Interfaces["lan"]; !sameConnection(got, Interface{Network: "sriov"}) {
			t.Errorf("merged with %s: %+v", name, got)
		}
	}
	if base := MergeBase(defined, runs, defined, defined, nil); base.Interfaces["lan"].HostDevice != "" {
		t.Errorf("agreed on: %+v", base.Interfaces["lan"])
	}
	if steps, err := LiveSteps(live, persistent, persistent, defined); err != nil || len(steps) > 0 {
		t.Errorf("steps: %v %v", steps, err)
	}
	aligned := AlignKeys(&runs, &defined)
	if changes := Changes(*aligned, defined); len(changes) > 0 {
		t.Errorf("changes: %v", changes)
	}
	other := Spec{Interfaces: map[string]Interface{"lan": {Network: "lan", Model: "virtio"}}}
	changes := Changes(*aligned, other)
	if len(changes) != 1 || changes[0].Live || changes[0].Path != "interfaces.lan.network" {
		t.Errorf("to another network: %v", changes)
	}
	if steps, err := LiveSteps(live, persistent, persistent, other); err != nil || len(steps) > 0 {
		t.Errorf("steps to another network: %v %v", steps, err)
	}
	named := domain(` id="1"`, `hostdev" managed="yes"`, source, `<alias name="ua-net-lan"/>`).Spec()
	if pending := Pending(named, defined); len(pending) == 0 {
		t.Error("an interface that names the device itself passes for the network's")
	}
}

// TestInterface_lentByAnother: once another network is staged for an interface that a network lends, it is pending
// until the VM restarts, whatever key the interface gets meanwhile. What is unplugged has no record.
func TestInterface_lentByAnother(t *testing.T) {
	t.Parallel()
	const mac, named = "52:54:00:00:00:01", `<alias name="ua-net-lan"/>`
	domain := func(run, kind, source, alias string) *Definition {
		run = strings.Replace(run, "<run>", `<run xmlns="`+RunNamespace+`">`, 1)
		return parse(t, `<domain type="kvm"><name>v</name><metadata>`+run+`</metadata><os><type>hvm</type></os><devices>`+
			`<interface type="`+kind+`"><mac address="`+mac+`"/><source>`+source+`</source><model type="virtio"/>`+
			alias+`</interface></devices></domain>`)
	}
	network := func(name, alias string) Spec {
		d := domain("", "network", "", alias)
		setAttr(child(d.devices("interface")[0], "source"), "network", name)
		return d.Spec()
	}
	live := func(run string) Spec {
		const device = `<address type="pci" domain="0x0000" bus="0x03" slot="0x10" function="0x1"/>`
		return domain(run, "hostdev", device, named).Spec()
	}
	before, staged := network("one", named), network("two", named)
	if found := StartedBefore(live(""), before, []Change{{Path: "cpu.vcpus"}}); found != nil {
		t.Errorf("another change is recorded as %v", found)
	}
	changes := Changes(*AlignKeys(new(live("")), &before), staged)
	started := StartedBefore(live(""), before, changes)
	if len(started) != 1 {
		t.Fatalf("of %v, the record is %v", changes, started)
	}
	runs := live(Spec{Started: started}.RunXML())
	for name, now := range map[string]Spec{"lan": staged, "wan": network("two", `<alias name="ua-net-wan"/>`)} {
		if found := Pending(runs, now); len(found) != 1 || found[0].Path != "interfaces."+name+".network" {
			t.Errorf("pending for %s is %v", name, found)
		}
		if nic := AlignKeys(&runs, &now).Interfaces[name]; !nic.Lent || !sameConnection(nic, Interface{Network: "one"}) {
			t.Errorf("what runs as %s is %+v", name, nic)
		}
	}
	if found := Pending(runs, before); len(found) > 0 {
		t.Errorf("pending is %v although the definition has the network again", found)
	}
	if again := StartedBefore(runs, staged, []Change{{Path: "interfaces.lan.network"}}); again != nil {
		t.Errorf("a further change is recorded as %v", again)
	}
	runs.Interfaces = nil
	if left := StartedBefore(runs, staged, nil); left == nil || len(left) > 0 {
		t.Errorf("what is left of an interface that was unplugged is %v", left)
	}
}

// TestInterface_modelOfAnotherTool: a model that libvirt doesn't start is kept, as all else that isn't declared. It
// isn't made.
func TestInterface_modelOfAnotherTool(t *testing.T) {
	t.Parallel()
	const source = `<source type="unix" path="/run/s" mode="client"/>`
	nic := func(of, model string) *Definition {
		return parse(t, `<domain type="qemu"><name>n</name><devices><interface type="`+of+`">`+source+
			`<model type="`+model+`"/><alias name="ua-net-a"/></interface></devices></domain>`)
	}
	want := Interface{VHostUser: "/run/s", VHostUserMode: "client", LinkUp: new(false)}
	d := nic("vhostuser", "rtl8139")
	if err := d.Apply(Spec{Interfaces: map[string]Interface{"a": want}}); err != nil {
		t.Error(err)
	}
	if got := output(t, d); !strings.Contains(got, `type="rtl8139"`) || !strings.Contains(got, `<link state="down"/>`) {
		t.Error(got)
	}
	for name, refused := range map[string]struct {
		d     *Definition
		model string
	}{"its model": {nic("vhostuser", "virtio"), "e1000"}, "its connection": {nic("bridge", "e1000"), ""}} {
		want.Model = refused.model
		if err := refused.d.Apply(Spec{Interfaces: map[string]Interface{"a": want}}); err == nil {
			t.Errorf("%s is changed to %s", name, output(t, refused.d))
		}
	}
}
