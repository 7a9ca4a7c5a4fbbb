package placement

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
)

// A mark that a disk is to be deleted counts only once the definition has lost the disk. Until the guest loses it, only
// update_policy = "Stage" says that this apply doesn't delete it.
func TestDropsOwnDisks_marked(t *testing.T) {
	t.Parallel()

	testDropsMarked(t, domain.DiskSource{File: "/vms/web-data"})
	testDropsMarked(t, domain.SourceAt("rbd:vms/web-data@ceph1:6789"))
}

func testDropsMarked(t *testing.T, source domain.DiskSource) {
	t.Helper()

	with := &domain.Spec{Disks: map[string]domain.Disk{"data": {Source: source}}}
	disk := domain.OwnDisk{Pool: "vms", Bytes: 1 << 30}
	own := disk
	own.Volume, own.Path, own.Removing = "web-data", source.VolumePath(), true

	for name, c := range map[string]struct {
		defined, runs *domain.Spec
		declared      string
		policy        string
		deletes, says bool
	}{
		"renamed":                {defined: with, declared: "db"},
		"removed, no plan says":  {defined: with},
		"lost":                   {defined: &domain.Spec{}, deletes: true, says: true},
		"lost at the next start": {defined: &domain.Spec{}, runs: with, policy: PolicyStage, deletes: true},
		"lost at a restart":      {defined: &domain.Spec{}, runs: with, policy: PolicyRestart, deletes: true, says: true},
		"lost, another is new":   {defined: &domain.Spec{}, declared: "db", deletes: true, says: true},
	} {
		vm := &inventory.VM{PersistentSpec: c.defined, LiveSpec: c.runs}
		vm.Metadata.OwnDisks = map[string]domain.OwnDisk{"data": own}

		d := Desired{UpdatePolicy: c.policy, Spec: domain.Spec{Disks: map[string]domain.Disk{}}}
		if c.declared != "" {
			d.OwnDisks = map[string]domain.OwnDisk{c.declared: disk}
			d.Renamed = map[string]string{c.declared: "data"}
		}

		if deletes, _ := d.DropsOwnDisks(vm); slices.Contains(deletes, "data") != c.deletes {
			t.Errorf("%s: it deletes %q", name, deletes)
		}

		if _, same := d.RenamedOwnDisks(vm)["data"]; same == (name == "renamed") {
			t.Errorf("%s: it is the same disk: %t", name, !same)
		}

		if got := fmt.Sprint(d.warnDroppedDisks(vm)); strings.Contains(got, "deleted with their data") != c.says {
			t.Errorf("%s: the plan says %s", name, got)
		}

		vm.ManagedSave = true
		if got := fmt.Sprint(d.warnDroppedDisks(vm)); strings.Contains(got, "deleted with their data") ||
			strings.Contains(got, "memory is saved") != c.says {
			t.Errorf("%s: of a saved guest, the plan says %s", name, got)
		}
	}
}

// A disk is the same one under a new key only if the plan has it so, and the definition hasn't lost it.
func TestRenamedOwnDisks(t *testing.T) {
	t.Parallel()

	made := func(path string) domain.OwnDisk {
		return domain.OwnDisk{Pool: "vms", Bytes: 1 << 30, Volume: path, Path: "/vms/" + path}
	}
	file := func(path string) domain.Disk { return domain.Disk{Source: domain.DiskSource{File: "/vms/" + path}} }

	for name, c := range map[string]struct {
		defined map[string]domain.Disk
		// more are further records.
		more map[string]domain.OwnDisk
		// from is the volume of the disk that is declared as new, "" if it is created.
		from      string
		unplanned bool
	}{
		"renamed":                           {defined: map[string]domain.Disk{"a": file("p")}, from: "p"},
		"renamed in the definition already": {defined: map[string]domain.Disk{"new": file("p")}, from: "p"},
		"no plan says so":                   {defined: map[string]domain.Disk{"a": file("p")}, unplanned: true},
		"another one was removed": {
			defined: map[string]domain.Disk{"a": file("p")}, more: map[string]domain.OwnDisk{"gone": made("q")}, from: "p",
		},
		"an earlier run has a disk of that key": {
			defined: map[string]domain.Disk{"a": file("p"), "new": file("q")},
			more:    map[string]domain.OwnDisk{"new": made("q")}, from: "q",
		},
		"detached by hand": {defined: map[string]domain.Disk{}},
	} {
		vm := &inventory.VM{PersistentSpec: &domain.Spec{Disks: c.defined}}
		vm.Metadata.OwnDisks = map[string]domain.OwnDisk{"a": made("p")}
		maps.Copy(vm.Metadata.OwnDisks, c.more)

		d := Desired{OwnDisks: map[string]domain.OwnDisk{"new": {Pool: "vms", Bytes: 1 << 30}}}
		if !c.unplanned {
			d.Renamed = map[string]string{"new": "a"}
		}

		if got := d.RenamedOwnDisks(vm)["new"].Volume; got != c.from {
			t.Errorf("%s: the disk is the volume %q, want %q", name, got, c.from)
		}
	}
}
