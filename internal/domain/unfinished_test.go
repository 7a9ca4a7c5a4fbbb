package domain

import (
	"maps"
	"slices"
	"testing"
)

// TestUnfinished_takenBack: what an update wrote to the definition of a running VM, and didn't bring to the VM that
// runs, is known by its paths, also under the new key of a device. What stands alone can be taken back, and the rest is
// named. What someone else has written to the definition stays.
func TestUnfinished_takenBack(t *testing.T) {
	t.Parallel()
	const xml = `<domain type="kvm" id="1"><name>a</name><memory>262144</memory><currentMemory>262144</currentMemory>
<vcpu>1</vcpu><os><type arch="x86_64" machine="q35">hvm</type></os><devices>
<interface type="bridge"><mac address="52:54:00:00:00:01"/><source bridge="br0"/><model type="virtio"/>
<alias name="ua-net-lan"/></interface></devices></domain>`
	live := parse(t, xml)
	before := live.Clone()
	before.root().RemoveAttr("id")
	byHand := before.Clone()
	if err := byHand.Apply(Spec{Values: Values{"title": "by hand"}}); err != nil {
		t.Fatal(err)
	}
	nic := Interface{Bridge: "br0", MAC: "52:54:00:00:00:01"}
	changed := nic
	changed.Values = Values{"isolated": "yes", "bandwidth.inbound.average": "1000"}
	want := Spec{
		Interfaces: map[string]Interface{"b2": changed}, Memory: Memory{Size: new(uint64(128 << 20))},
		Values: Values{"description": "b", "devices.watchdog.model": "i6300esb"},
	}
	after := byHand.Clone()
	if err := after.Apply(want); err != nil {
		t.Fatal(err)
	}
	running := FollowDefinition(live.Spec(), byHand.Spec(), want)
	left := UnfinishedBy(running, byHand.Spec(), after.Spec(), nil)
	paths := left.Unseen(running, after.Spec(), Spec{})
	for _, path := range []string{
		"description", "interfaces.b2.bandwidth.inbound.average", "interfaces.b2.isolated", "memory.size",
		"devices.watchdog.model",
	} {
		if !slices.Contains(paths, path) {
			t.Errorf("%s isn't among %q", path, paths)
		}
	}
	if slices.Contains(paths, "title") {
		t.Errorf("someone else's change is among %q", paths)
	}
	if again := UnfinishedBy(running, after.Spec(), after.Spec(), left); !slices.Equal(
		again.Unseen(running, after.Spec(), Spec{}), paths) {
		t.Errorf("after another update it is %v", again)
	}

	// The configuration goes back, with the old key of the interface, and declares the description.
	declared := Spec{Interfaces: map[string]Interface{"lan": nic}, Values: Values{"description": "c"}}
	undone, taken := declared.TakeBack(paths, after.Spec(), running)
	if err := after.Apply(undone); err != nil {
		t.Fatal(err)
	}
	is := after.Spec()
	if is.Values["title"] != "by hand" || is.Values["description"] != "c" || len(is.Interfaces["lan"].Values) > 0 {
		t.Errorf("taken back are %q: %+v", taken.Paths, is)
	}
	// What follows from other attributes isn't decided for the user.
	for _, path := range []string{"memory.size", "devices.watchdog.model"} {
		if !slices.Contains(taken.Staying, path) || slices.Contains(taken.Paths, path) {
			t.Errorf("staying are %q, without %s", taken.Staying, path)
		}
	}
	if slices.Contains(taken.Paths, "description") {
		t.Errorf("what is declared is taken back: %q", taken.Paths)
	}
	if declared.Interfaces["lan"].Values != nil || len(declared.Values) != 1 {
		t.Errorf("the declaration was changed: %+v", declared)
	}
}

// TestUnfinished_declaredEmpty: an attribute that is declared empty is declared: the running VM's value isn't taken in
// its place, and nothing is called undeclared.
func TestUnfinished_declaredEmpty(t *testing.T) {
	t.Parallel()
	spec := func(title, filter string) Spec {
		return Spec{
			Values:     Values{"title": title},
			Interfaces: map[string]Interface{"lan": {Bridge: "br0", Values: Values{"filter.name": filter}}},
		}
	}
	running, failed, want := spec("old", ""), spec("new", "clean-traffic"), spec("", "")
	paths := UnfinishedBy(running, running, failed, nil).Unseen(running, failed, running)
	if !slices.Equal(paths, []string{"interfaces.lan.filter.name", "title"}) {
		t.Fatalf("unfinished are %q", paths)
	}
	got, taken := want.TakeBack(paths, failed, running)
	if len(taken.Paths) > 0 || len(taken.Staying) > 0 || got.Values["title"] != "" {
		t.Errorf("taken back are %+v: %+v", taken, got)
	}
}

// TestUnfinished_devices: of a device that the running VM lacks nothing stays, if an update plugs it in or takes it out
// of the definition. Otherwise the device is named, and not each of its attributes.
func TestUnfinished_devices(t *testing.T) {
	t.Parallel()
	disk := func(file string) Disk { return Disk{Source: DiskSource{File: file}, Bus: "virtio", Format: "qcow2"} }
	nic := Interface{Bridge: "br0", MAC: "52:54:00:00:00:01", Model: "virtio"}
	root := map[string]Disk{"root": disk("/root")}
	running := Spec{Disks: root, Interfaces: map[string]Interface{}}
	failed := Spec{
		Disks:      map[string]Disk{"root": disk("/root"), "data": disk("/data")},
		Interfaces: map[string]Interface{"lan": nic},
	}
	paths := UnfinishedBy(running, running, failed, nil).Unseen(running, failed, running)
	if !slices.Contains(paths, "disks.data.bus") || !slices.Contains(paths, "interfaces.lan.mac") {
		t.Fatalf("unfinished are %q", paths)
	}
	declared := Spec{
		Disks:      map[string]Disk{"root": disk("/root"), "data": {Source: DiskSource{File: UnknownFile}}},
		Interfaces: map[string]Interface{"lan": {Bridge: "br0"}},
	}
	for _, test := range []struct {
		what  string
		want  Spec
		stays []string
	}{
		{"declared", declared, nil},
		{"removed", running, nil},
		{"left alone", Spec{}, []string{"disks.data", "interfaces.lan"}},
	} {
		if _, taken := test.want.TakeBack(paths, failed, running); !slices.Equal(taken.Staying, test.stays) {
			t.Errorf("%s: staying are %q", test.what, taken.Staying)
		}
	}
}

// TestUnfinished_remaining: an update that succeeds settles what it declares, and what then runs. The rest is still to
// be made by the next start.
func TestUnfinished_remaining(t *testing.T) {
	t.Parallel()
	const watchdog, hook = "devices.watchdog.model", "description"
	running := Spec{Interfaces: map[string]Interface{"b2": {MAC: "52:54:00:00:00:01", Bridge: "br0"}}}
	failed := Spec{
		Values: Values{"title": "new", hook: "b", watchdog: "i6300esb"},
		Interfaces: map[string]Interface{
			"b2": {MAC: "52:54:00:00:00:01", Bridge: "br0", Values: Values{"isolated": "yes"}},
		},
	}
	left := UnfinishedBy(running, running, failed, nil)
	want := Spec{Values: Values{"title": ""}, Interfaces: map[string]Interface{"lan": running.Interfaces["b2"]}}
	after, runs := failed, running
	after.Values = Values{"title": "by hand", hook: "b", watchdog: "i6300esb"}
	after.Interfaces = map[string]Interface{"lan": failed.Interfaces["b2"]}
	runs.Values = Values{hook: "b"}
	paths := slices.Sorted(maps.Keys(left.Remaining(runs, failed, after, want)))
	if !slices.Equal(paths, []string{watchdog, "interfaces.lan.isolated"}) {
		t.Errorf("remaining are %q", paths)
	}
	if again := left.Remaining(after, failed, after, want); len(again) > 0 {
		t.Errorf("remaining of what runs are %v", again)
	}
}

// TestUnfinished_ofDisks: the source, format and encryption of a disk are never taken from the running VM. They could
// be those of another source.
func TestUnfinished_ofDisks(t *testing.T) {
	t.Parallel()
	running := Spec{Disks: map[string]Disk{"a": {Source: DiskSource{File: "/a.img"}, Format: "raw"}}}
	failed := Spec{Disks: map[string]Disk{"a": {Source: DiskSource{File: "/b.qcow2"}, Format: "qcow2"}}}
	for name, want := range map[string]Spec{
		"another source": {Disks: map[string]Disk{"a": {Source: DiskSource{File: "/c.qcow2"}}}},
		"an empty drive": {Disks: map[string]Disk{"a": {Device: "cdrom"}}},
	} {
		paths := UnfinishedBy(running, running, failed, nil).Unseen(running, failed, Spec{})
		if got, taken := want.TakeBack(paths, failed, running); len(taken.Paths) > 0 || len(Changes(got, want)) > 0 {
			t.Errorf("%s: taken back are %q: %+v", name, taken.Paths, got)
		}
	}
	// The drive of a declared medium is declared, though not among the disks.
	drive := func(file string) Spec {
		return Spec{Disks: map[string]Disk{MediumKey: {Source: DiskSource{File: file}, Device: "cdrom"}}}
	}
	medium := Spec{Disks: map[string]Disk{}, Medium: &DiskSource{File: "/b.iso"}}
	paths := []string{"disks." + MediumKey + ".source"}
	if _, taken := medium.TakeBack(paths, drive("/b.iso"), drive("/a.iso")); len(taken.Paths)+len(taken.Staying) > 0 {
		t.Errorf("of the medium, taken back are %q, left %q", taken.Paths, taken.Staying)
	}
}
