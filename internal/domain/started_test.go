package domain

import (
	"slices"
	"strings"
	"testing"
)

// TestStarted_survivesTheGuest: what a running VM was started with is known while its guest changes the value, and
// its record isn't touched by further staged changes.
func TestStarted_survivesTheGuest(t *testing.T) {
	t.Parallel()
	clock := func(adjustment, metadata string) Spec {
		return parse(t, `<domain><metadata>`+metadata+`</metadata><clock offset="variable" adjustment="`+adjustment+
			`" basis="utc"/></domain>`).Spec()
	}
	const path = "platform.clock.adjustment"
	before, moved, staged := clock("-3600", ""), clock("82801", ""), clock("120", "")
	if found := Pending(moved, before); len(found) > 0 {
		t.Errorf("what the guest does is pending: %v", found)
	}
	started := StartedBefore(moved, before, Changes(before, staged))
	if len(started) != 1 || started[path] != "-3600" {
		t.Fatalf("the record is %v", started)
	}
	if found := StartedBefore(moved, before, []Change{{Path: "cpu.vcpus"}}); found != nil {
		t.Errorf("another change is recorded as %v", found)
	}
	xml := strings.Replace(Spec{Started: started}.RunXML(), "<run>", `<run xmlns="`+RunNamespace+`">`, 1)
	moved = clock("82801", xml)
	if found := Pending(moved, staged); len(found) != 1 || found[0].Path != path {
		t.Errorf("pending is %v", found)
	}
	if found := Pending(moved, before); len(found) > 0 {
		t.Errorf("pending is %v although the definition says what the VM was started with", found)
	}
	if again := StartedBefore(moved, staged, Changes(staged, before)); again != nil {
		t.Errorf("a further change is recorded as %v", again)
	}
	if now := WithoutLibvirtDefaults(moved, Spec{}); now.Values[path] != "-3600" {
		t.Errorf("compared with nothing, it is %q", now.Values[path])
	}
}

// TestStarted_takenFromTheDefinition: libvirt may put a value of its own into what runs, so that a value which only the
// running VM has isn't pending. One that an update took out of the definition is, whatever key its device gets, and
// until then what is compared with the declaration has it as well.
func TestStarted_takenFromTheDefinition(t *testing.T) {
	t.Parallel()
	vm := func(run, key, inNIC, inDevices string) Spec {
		run = strings.Replace(run, "<run>", `<run xmlns="`+RunNamespace+`">`, 1)
		return parse(t, `<domain type="kvm"><name>v</name><metadata>`+run+`</metadata><os><type>hvm</type></os><devices>`+
			`<interface type="network"><mac address="52:54:00:00:00:01"/><source network="lan"/>`+inNIC+
			`<model type="virtio"/><alias name="ua-net-`+key+`"/></interface>`+inDevices+`</devices></domain>`).Spec()
	}
	const console = `<graphics type="vnc" port="PORT" autoport="AUTO"><listen type="address"/></graphics>`
	fixed := strings.NewReplacer("PORT", "5901", "AUTO", "no").Replace(console)
	auto := strings.NewReplacer("PORT", "-1", "AUTO", "yes").Replace(console)
	nic := func(values Values) Spec {
		return Spec{Interfaces: map[string]Interface{"wan": {Network: "lan", MAC: "52:54:00:00:00:01", Values: values}}}
	}
	for path, test := range map[string]struct {
		nicHad, nicHas, had, has string
		want                     Spec
	}{
		"interfaces.wan.vlan.trunk": {
			`<vlan trunk="yes"><tag id="42"/></vlan>`, `<vlan><tag id="42"/></vlan>`, "", "",
			nic(Values{"vlan.trunk": "no", "vlan.tags": "42"}),
		},
		"interfaces.wan.mtu": {`<mtu size="9000"/>`, "", "", "", nic(Values{"mtu": "0"})},
		"interfaces.wan.virtual_port.type": {
			`<virtualport type="openvswitch"/>`, "", "", "", nic(Values{"virtual_port.type": None}),
		},
		"devices.graphics.port": {"", "", fixed, auto, Spec{Values: Values{"devices.graphics.port": Auto}}},
	} {
		before, runs := vm("", "lan", test.nicHad, test.had), vm("", "lan", test.nicHad, test.had)
		after := vm("", "wan", test.nicHas, test.has)
		if found := Pending(runs, after); len(found) > 0 {
			t.Errorf("%s: a value that may be libvirt's is pending: %v", path, found)
		}
		compared := func(known Spec) []Change {
			return Changes(FollowDefinition(WithoutLibvirtDefaults(*AlignKeys(&runs, &known), known), known, test.want),
				test.want)
		}
		has := func(found []Change) bool {
			return slices.ContainsFunc(found, func(c Change) bool { return c.Path == path })
		}
		if found := compared(after); len(found) > 0 {
			t.Errorf("%s: a value that may be libvirt's is to be changed: %v", path, found)
		}
		changes := compared(before)
		if !has(changes) {
			t.Fatalf("%s isn't changed: %v", path, changes)
		}
		started := StartedBefore(runs, before, changes)
		runs = vm(Spec{Started: started}.RunXML(), "lan", test.nicHad, test.had)
		if found := Pending(runs, after); !has(found) {
			t.Errorf("%s: pending is %v, recorded %v", path, found, started)
		}
		if found := compared(after); !has(found) {
			t.Errorf("%s: to be changed is %v, recorded %v", path, found, started)
		}
		if found := Pending(runs, before); len(found) > 0 {
			t.Errorf("%s: pending is %v although the definition says what the VM was started with", path, found)
		}
		if again := StartedBefore(runs, after, changes); again != nil {
			t.Errorf("%s: a further change is recorded as %v", path, again)
		}
		runs.Interfaces = nil
		if left := StartedBefore(runs, after, nil); strings.HasPrefix(path, "interfaces.") && (left == nil || len(left) > 0) {
			t.Errorf("%s: what is left of an interface that was unplugged is %v", path, left)
		}
	}
}

// TestStarted_changedSince: a value that was recorded with another one's staged change, and that was then changed while
// the VM ran, says nothing of the value that libvirt has put in its place. It is recorded again when it may matter.
func TestStarted_changedSince(t *testing.T) {
	t.Parallel()
	vm := func(run, average, inNIC string) Spec {
		run = strings.Replace(run, "<run>", `<run xmlns="`+RunNamespace+`">`, 1)
		if average != "" {
			inNIC += `<bandwidth><inbound average="` + average + `"/></bandwidth>`
		}
		return parse(t, `<domain type="kvm"><name>v</name><metadata>`+run+`</metadata><os><type>hvm</type></os><devices>`+
			`<interface type="network"><mac address="52:54:00:00:00:01"/><source network="lan" portgroup="slow"/>`+inNIC+
			`<model type="virtio"/><alias name="ua-net-lan"/></interface></devices></domain>`).Spec()
	}
	const mtu, path, record = `<mtu size="9000"/>`, "interfaces.lan.bandwidth.inbound.average",
		"interfaces.52:54:00:00:00:01.bandwidth.inbound.average"
	wanted := func(average string) Spec {
		return Spec{Interfaces: map[string]Interface{"lan": {
			Network: "lan", MAC: "52:54:00:00:00:01", Values: Values{"mtu": "9000", "bandwidth.inbound.average": average},
		}}}
	}
	compared := func(runs, known, want Spec) []Change {
		now := FollowDefinition(WithoutLibvirtDefaults(*AlignKeys(&runs, &known), known), known, want)
		return slices.DeleteFunc(Changes(now, want), func(c Change) bool { return c.Path != path })
	}
	before := vm("", "1000", "")
	started := StartedBefore(before, before, []Change{{Path: "interfaces.lan.mtu"}})
	if started[record] != "1000" {
		t.Fatalf("the record is %v", started)
	}
	run := Spec{Started: started}.RunXML()
	if found := compared(vm(run, "1000", ""), vm("", "", mtu), wanted("0")); len(found) != 1 {
		t.Errorf("before it is changed in what runs, to be changed is %v", found)
	}
	for name, run := range map[string]string{"no record": "", "a record": run} {
		runs, staged := vm(run, "500", ""), vm("", "", mtu)
		if found := Pending(runs, staged); len(found) != 1 || found[0].Path != "interfaces.lan.mtu" {
			t.Errorf("with %s, pending is %v", name, found)
		}
		if found := compared(runs, staged, wanted("0")); len(found) > 0 {
			t.Errorf("with %s, to be changed is %v", name, found)
		}
	}
	runs, staged := vm(run, "700", ""), vm("", "700", mtu)
	if again := StartedBefore(runs, staged, []Change{{Path: path}}); again[record] != "700" {
		t.Errorf("changed while the VM ran, the record is %v", again)
	}
}
