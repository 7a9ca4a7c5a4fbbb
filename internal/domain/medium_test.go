package domain

import (
	"strings"
	"testing"
)

// The drive of the first-boot medium comes with the medium, and stays when that goes, whether disks are declared or
// not: a running VM is given another medium, and never asked to lose its drive.
func TestApply_medium(t *testing.T) {
	t.Parallel()
	declared := map[string]Disk{"root": {Source: DiskSource{File: "/root.qcow2"}}}
	for name, disks := range map[string]map[string]Disk{"declared": declared, "left alone": nil} {
		d, err := New(Spec{
			Name: "vm", Type: "kvm", Memory: Memory{Size: new(uint64(1 << 30))}, Disks: disks,
			Medium: &DiskSource{File: "/seed"},
		}, "u")
		if err != nil {
			t.Fatal(err)
		}
		drive := d.Spec().Disks[MediumKey]
		if drive.Source.File != "/seed" || drive.Device != "cdrom" || drive.Bus != "scsi" || drive.Format != "raw" ||
			!*drive.ReadOnly || !strings.Contains(output(t, d), `"ua-disk-`+MediumKey+`"`) {
			t.Errorf("%s: %+v", name, drive)
		}
		if n := len(d.Spec().Disks); n != len(disks)+1 {
			t.Errorf("%s: there are %d disks", name, n)
		}
		for _, step := range []struct {
			medium *DiskSource
			want   string
			steps  int
		}{
			{nil, "/seed", 0},
			{&DiskSource{File: "/other"}, "/other", 1},
			{&DiskSource{}, "", 1},
			{nil, "", 0},
			{&DiskSource{}, "", 0},
			{&DiskSource{File: "/again"}, "/again", 1},
		} {
			want, live := Spec{Disks: disks, Medium: step.medium}, d.Clone()
			for _, c := range Changes(live.Spec(), want) {
				if !c.Live || c.Path != "disks."+MediumKey+".file" {
					t.Errorf("%s, %+v: %+v", name, step, c)
				}
			}
			if err := d.Apply(want); err != nil {
				t.Fatal(err)
			}
			if got := d.Spec().Disks; got[MediumKey].Source.File != step.want || len(got) != len(disks)+1 {
				t.Errorf("%s, %+v: %+v", name, step, got)
			}
			steps, err := LiveSteps(live, d, d, want)
			if err != nil || len(steps) != step.steps || step.steps > 0 && steps[0].Kind != ChangeMedium {
				t.Errorf("%s, %+v: %+v, %v", name, step, steps, err)
			}
		}
	}
}

// A drive can't be plugged into a running VM, and where nothing is declared no VM gets or loses one.
func TestChanges_medium(t *testing.T) {
	t.Parallel()
	changes := Changes(full(), Spec{Medium: &DiskSource{File: "/seed"}})
	if len(changes) != 1 || changes[0].Live || changes[0].Path != "disks."+MediumKey {
		t.Errorf("%+v", changes)
	}
	for _, medium := range []*DiskSource{nil, {}} {
		if changes := Changes(full(), Spec{Medium: medium}); len(changes) > 0 {
			t.Errorf("%+v", changes)
		}
	}
	// What a state has declared is there, as far as can be told without a question to the host.
	have := Spec{Medium: &DiskSource{File: "/seed"}}
	if changes := Changes(have, have); len(changes) > 0 {
		t.Errorf("%+v", changes)
	}
}

// TestApply_mediumBus: a new drive is on a bus for which the guest surely has a driver, since it boots from such a bus,
// and leaves the disks their names. An existing drive stays where it is.
func TestApply_mediumBus(t *testing.T) {
	t.Parallel()
	on := func(bus string) map[string]Disk { return map[string]Disk{"root": {Bus: bus}} }
	two := func(boots, other string) map[string]Disk {
		return map[string]Disk{"root": {Bus: boots, BootOrder: new(1)}, "a": {Bus: other}}
	}
	four := map[string]Disk{"a": {Bus: "ide"}, "b": {Bus: "ide"}, "d": {Bus: "ide"}, "root": {Bus: "ide"}}
	for name, test := range map[string]struct {
		machine     string
		disks       map[string]Disk
		bus, target string
		root        string
	}{
		"no disk":        {"", nil, "scsi", "sda", ""},
		"virtio":         {"", on("virtio"), "scsi", "sda", "vda"},
		"scsi":           {"", on("scsi"), "scsi", "sdb", "sda"},
		"sata":           {"", on("sata"), "sata", "sdb", "sda"},
		"sata on pc":     {"pc", on("sata"), "ide", "hda", "sda"},
		"ide":            {"pc", on("ide"), "ide", "hdb", "hda"},
		"ide is full":    {"pc", four, "sata", "sda", "hdd"},
		"usb":            {"", on("usb"), "scsi", "sdb", "sda"},
		"data on virtio": {"", two("sata", "virtio"), "sata", "sdb", "sda"},
		"data on sata":   {"", two("virtio", "sata"), "scsi", "sdb", "vda"},
	} {
		for key, disk := range test.disks {
			disk.Source.File = "/" + key
			test.disks[key] = disk
		}
		d, err := New(Spec{
			Name: "vm", Type: "kvm", Machine: test.machine, Memory: Memory{Size: new(uint64(1 << 30))}, Disks: test.disks,
			Medium: &DiskSource{File: "/seed"},
		}, "u")
		if err != nil {
			t.Fatal(err)
		}
		drive, root := d.Spec().Disks[MediumKey], d.Spec().Disks["root"]
		if drive.Bus != test.bus || drive.Target != test.target || root.Target != test.root {
			t.Errorf("%s: the drive is %s on %s, and the disk %s", name, drive.Target, drive.Bus, root.Target)
		}
	}
	// As it was made before the bus of the disks counted.
	d := parse(t, `<domain type='kvm'><name>vm</name><uuid>u</uuid><memory>1024</memory>`+
		`<os><type arch='x86_64'>hvm</type></os><devices>`+
		`<disk type='file' device='disk'><source file='/root'/><target dev='sdb' bus='sata'/>`+
		`<alias name='ua-disk-root'/></disk><disk type='file' device='cdrom'><driver name='qemu' type='raw'/>`+
		`<source file='/seed'/><target dev='sda' bus='scsi'/><readonly/><alias name='ua-disk-cloud-init'/></disk>`+
		`<controller type='scsi' index='0' model='virtio-scsi'/></devices></domain>`)
	for _, medium := range []*DiskSource{{File: "/seed"}, {File: "/other"}, {}, {File: "/again"}} {
		want := Spec{Disks: map[string]Disk{"root": {Source: DiskSource{File: "/root"}, Bus: "sata"}}, Medium: medium}
		for _, c := range Changes(d.Spec(), want) {
			if !c.Live || c.Path != "disks."+MediumKey+".file" {
				t.Errorf("%+v: %+v", medium, c)
			}
		}
		if err := d.Apply(want); err != nil {
			t.Fatal(err)
		}
		if drive := d.Spec().Disks[MediumKey]; drive.Bus != "scsi" || drive.Target != "sda" || drive.Source != *medium {
			t.Errorf("%+v: %+v", medium, drive)
		}
	}
}

// TestApply_emptyUSB: QEMU doesn't start with a drive on USB that has no medium, so none is created, and a medium isn't
// ejected. One that someone has defined stays.
func TestApply_emptyUSB(t *testing.T) {
	t.Parallel()
	declare := func(d Disk) map[string]Disk { return map[string]Disk{"cd": d} }
	const why = "A drive on usb can't be empty"
	empty := declare(Disk{Device: "cdrom", Bus: "usb"})
	s := Spec{Name: "vm", Type: "kvm", Memory: Memory{Size: new(uint64(1 << 30))}, Disks: empty}
	if _, err := New(s, testUUID); err == nil || !strings.Contains(err.Error(), why) {
		t.Errorf("a new one is empty: %v", err)
	}
	s.Disks = declare(Disk{Device: "cdrom", Bus: "usb", Source: DiskSource{File: "/a.iso"}})
	d, err := New(s, testUUID)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Apply(Spec{Disks: empty}); err == nil || !strings.Contains(err.Error(), why) {
		t.Errorf("ejected: %v", err)
	}
	if err := d.Apply(Spec{Disks: declare(Disk{Device: "cdrom", Bus: "scsi"})}); err != nil {
		t.Errorf("ejected on another bus: %v", err)
	}
	byHand := parse(t, `<domain><devices><disk type="file" device="cdrom"><target dev="sda" bus="usb"/><readonly/>`+
		`<alias name="ua-disk-cd"/></disk></devices></domain>`)
	if err := byHand.Apply(Spec{Disks: declare(Disk{Device: "cdrom", Bus: "usb", BootOrder: new(1)})}); err != nil {
		t.Errorf("one that was empty before: %v", err)
	}
}
