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
			steps, err := LiveSteps(live, d, want)
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
