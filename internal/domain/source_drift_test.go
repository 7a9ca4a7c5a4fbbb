package domain

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A snapshot, a copy or an edit by hand moves a disk's data to another image. The declared one is old by then.
func TestSourceDrifts(t *testing.T) {
	t.Parallel()
	file := func(path string, backing ...string) Disk {
		disk := Disk{Source: DiskSource{File: path}, Device: "disk"}
		for _, path := range backing {
			disk.Backing = append(disk.Backing, DiskSource{File: path})
		}
		return disk
	}
	type disks = map[string]Disk
	export := DiskSource{Network: &NetworkSource{Protocol: "nbd", Name: "a", Hosts: []string{"h"}}}
	cdrom := file("/b.iso")
	cdrom.Device = "cdrom"
	for name, tt := range map[string]struct {
		have, live, want disks
		applied          map[string]DiskSource
		recorded         map[string]string
		drifts           []SourceDrift
	}{
		"nothing changed": {
			have: disks{"root": file("/a")}, want: disks{"root": file("/a")},
			applied: map[string]DiskSource{"root": {File: "/a"}},
		},
		"declared otherwise": {
			have: disks{"root": file("/a")}, want: disks{"root": file("/b")},
			applied: map[string]DiskSource{"root": {File: "/a"}},
		},
		"an overlay, as what runs shows": {
			have: disks{"root": file("/a.s1")}, live: disks{"root": file("/a.s1", "/a")}, want: disks{"root": file("/a")},
			drifts: []SourceDrift{{"root", DiskSource{File: "/a"}, DiskSource{File: "/a.s1"}, true}},
		},
		"two overlays deep, under another key": {
			have: disks{"vda": file("/a.s2")}, live: disks{"vda": file("/a.s2", "/a.s1", "/a")}, want: disks{"root": file("/a")},
			drifts: []SourceDrift{{"root", DiskSource{File: "/a"}, DiskSource{File: "/a.s2"}, true}},
		},
		"an overlay of a VM that is off": {
			have: disks{"root": file("/a.s1")}, want: disks{"root": file("/a")},
			applied: map[string]DiskSource{"root": {File: "/a"}},
			drifts:  []SourceDrift{{"root", DiskSource{File: "/a"}, DiskSource{File: "/a.s1"}, false}},
		},
		"renamed at the same time": {
			have: disks{"root": file("/a.s1")}, want: disks{"system": file("/a")},
			applied: map[string]DiskSource{"root": {File: "/a"}},
			drifts:  []SourceDrift{{"system", DiskSource{File: "/a"}, DiskSource{File: "/a.s1"}, false}},
		},
		"declared as a volume, which is a device": {
			have: disks{"root": {Source: DiskSource{Block: "/dev/a"}}}, want: disks{"root": file("/dev/a")},
			applied: map[string]DiskSource{"root": {File: "/dev/a"}},
		},
		"the overlay is declared": {
			have: disks{"root": file("/a.s1")}, live: disks{"root": file("/a.s1", "/a")}, want: disks{"root": file("/a.s1")},
			applied: map[string]DiskSource{"root": {File: "/a"}},
		},
		"two disks are swapped": {
			have: disks{"a": file("/a"), "b": file("/b")}, want: disks{"a": file("/b"), "b": file("/a")},
			applied: map[string]DiskSource{"a": {File: "/a"}, "b": {File: "/b"}},
		},
		"detached by hand": {
			have: disks{}, want: disks{"root": file("/a")}, applied: map[string]DiskSource{"root": {File: "/a"}},
		},
		"a medium that a user changed": {
			have: disks{"cd": cdrom}, want: disks{"cd": {Source: DiskSource{File: "/a.iso"}, Device: "cdrom"}},
			applied: map[string]DiskSource{"cd": {File: "/a.iso"}},
		},
		"staged, and not running yet": {
			have: disks{"root": file("/b")}, live: disks{"root": file("/a")}, want: disks{"root": file("/b")},
			applied: map[string]DiskSource{"root": {File: "/b"}},
		},
		"imported, after a copy": {
			have: disks{"root": file("/b")}, live: disks{"root": file("/b")}, want: disks{"root": file("/a")},
			recorded: map[string]string{"root": "/a"},
			drifts:   []SourceDrift{{"root", DiskSource{File: "/a"}, DiskSource{File: "/b"}, false}},
		},
		"imported, and declared otherwise": {
			have: disks{"root": file("/b")}, want: disks{"root": file("/c")}, recorded: map[string]string{"root": "/a"},
		},
		"imported, and declared as it is": {
			have: disks{"root": file("/b")}, want: disks{"root": file("/b")}, recorded: map[string]string{"root": "/a"},
		},
		"another configuration has switched it": {
			have: disks{"root": file("/b")}, want: disks{"root": file("/a")},
			applied: map[string]DiskSource{"root": {File: "/a"}}, recorded: map[string]string{"root": "/b"},
			drifts: []SourceDrift{{"root", DiskSource{File: "/a"}, DiskSource{File: "/b"}, false}},
		},
		"replaced by hand, and the old image is attached too": {
			have: disks{"root": file("/b")}, want: disks{"root": file("/b"), "old": file("/a")},
			applied: map[string]DiskSource{"root": {File: "/a"}}, recorded: map[string]string{"root": "/a"},
		},
		"and the disk is renamed": {
			have: disks{"root": file("/b")}, want: disks{"system": file("/b"), "root": file("/a")},
			applied: map[string]DiskSource{"root": {File: "/a"}}, recorded: map[string]string{"root": "/a"},
		},
		"and the new image is another volume": {
			have: disks{"root": file("/b")}, want: disks{"root": file("/c"), "old": file("/a")},
			applied: map[string]DiskSource{"root": {File: "/a"}},
			drifts:  []SourceDrift{{"old", DiskSource{File: "/a"}, DiskSource{File: "/b"}, false}},
		},
		"an overlay, and its base is attached too": {
			have: disks{"root": file("/a.s1")}, live: disks{"root": file("/a.s1", "/a")},
			want:   disks{"root": file("/a.s1"), "old": file("/a")},
			drifts: []SourceDrift{{"old", DiskSource{File: "/a"}, DiskSource{File: "/a.s1"}, true}},
		},
		"replaced by what was declared under another key before": {
			have: disks{"root": file("/b")}, want: disks{"root": file("/a"), "data": file("/b")},
			applied: map[string]DiskSource{"root": {File: "/a"}, "data": {File: "/b"}},
			drifts:  []SourceDrift{{"root", DiskSource{File: "/a"}, DiskSource{File: "/b"}, false}},
		},
		"by what was recorded under another key before": {
			have: disks{"root": file("/b")}, want: disks{"root": file("/a"), "data": file("/b")},
			recorded: map[string]string{"root": "/a", "data": "/b"},
			drifts:   []SourceDrift{{"root", DiskSource{File: "/a"}, DiskSource{File: "/b"}, false}},
		},
		"two replaced by hand, and one of the new images is declared": {
			have:    disks{"a": file("/a2"), "b": file("/b2")},
			want:    disks{"a": file("/a2"), "b": file("/b"), "old": file("/a")},
			applied: map[string]DiskSource{"a": {File: "/a"}, "b": {File: "/b"}},
			drifts:  []SourceDrift{{"b", DiskSource{File: "/b"}, DiskSource{File: "/b2"}, false}},
		},
		"on the network, by its address": {
			have: disks{"root": file("/b")}, want: disks{"root": {Source: export}},
			recorded: map[string]string{"root": "nbd:a@h:10809"},
			drifts:   []SourceDrift{{"root", export, DiskSource{File: "/b"}, false}},
		},
	} {
		var live *Spec
		if tt.live != nil {
			live = &Spec{Disks: tt.live}
		}
		got := SourceDrifts(Spec{Disks: tt.have}, live, Spec{Disks: tt.want}, tt.applied, tt.recorded)
		if diff := cmp.Diff(tt.drifts, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// The command that the remedy names can be pasted into a shell, whatever the VM and its image are called.
func TestSourceDrift_explain(t *testing.T) {
	t.Parallel()
	drift := SourceDrift{"root", DiskSource{File: "/a"}, DiskSource{File: "/srv/my vms/a (1).s1"}, true}
	_, remedy := drift.Explain("web (old)")
	const command = `"virsh blockcommit 'web (old)' '/srv/my vms/a (1).s1' --active --pivot"`
	if !strings.Contains(remedy, command) {
		t.Errorf("%s; want %s", remedy, command)
	}
}

// What an apply records of its disks are the images alone, of those that have data to lose.
func TestAppliedSources(t *testing.T) {
	t.Parallel()
	network := NetworkSource{Protocol: "nbd", Name: "a", Hosts: []string{"h1", "h2:1"}, Auth: &SourceAuth{Username: "me"}}
	spec := Spec{Disks: map[string]Disk{
		"file": {Source: DiskSource{File: "/a"}}, "block": {Source: DiskSource{Block: "/dev/a"}},
		"network": {Source: DiskSource{Network: &network}},
		"cd":      {Source: DiskSource{File: "/b.iso"}, Device: "cdrom"},
		"base":    {Source: DiskSource{File: "/c"}, ReadOnly: new(true)},
		"empty":   {}, "other": {Source: DiskSource{Other: "vhostuser:"}},
	}}
	want := map[string]string{"file": "/a", "block": "/dev/a", "network": "nbd:a@h1:10809,h2:1"}
	if diff := cmp.Diff(want, spec.AppliedSources()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got := (Spec{}).AppliedSources(); got != nil {
		t.Errorf("without disks: %v", got)
	}
}

// What the guest writes to a transient disk is in an overlay that libvirt removes when the VM stops: that is no switch
// to another image.
func TestReadDisk_transient(t *testing.T) {
	t.Parallel()
	d, err := Parse(`<domain type='qemu' id='1'><devices><disk type='file' device='disk'>
  <driver name='qemu' type='qcow2'/><source file='/a.raw.TRANSIENT-web' index='1'/>
  <backingStore type='file' index='2'><format type='raw'/><source file='/a.raw'/><backingStore/></backingStore>
  <target dev='vda' bus='virtio'/><transient/></disk></devices></domain>`)
	if err != nil {
		t.Fatal(err)
	}
	disk := d.Spec().Disks["vda"]
	if disk.Source.File != "/a.raw" || disk.Format != "raw" || len(disk.Backing) > 0 {
		t.Errorf("the disk was read as %v in format %q on %v", disk.Source, disk.Format, disk.Backing)
	}
}

// A source that can only be kept has a remedy when a VM is to get it, as one that is created again after its host was
// lost: most sources of that kind are volumes, which have an attribute.
func TestUndeclarable(t *testing.T) {
	t.Parallel()
	for other, want := range map[string]string{
		"volume:pool=default,volume=a9.qcow2":                     `volume = "default/a9.qcow2"`,
		"volume:pool=default,startupPolicy=optional,volume=a.iso": `volume = "default/a.iso"`,
		"volume:pool=default":                                     "set file, block, network or volume",
		"dir:dir=/srv":                                            "set file, block, network or volume",
	} {
		if got := undeclarable("disks.vda", other).Message; !strings.Contains(got, want) {
			t.Errorf("%s: %s; want %s", other, got, want)
		}
	}
}
