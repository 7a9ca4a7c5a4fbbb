package placement

import (
	"fmt"
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

	const file = "/vms/web-data"

	with := &domain.Spec{Disks: map[string]domain.Disk{"data": {Source: domain.DiskSource{File: file}}}}
	disk := domain.OwnDisk{Pool: "vms", Bytes: 1 << 30}
	own := disk
	own.Volume, own.Path, own.Removing = "web-data", file, true

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
	}
}

// A disk is the same one under a new key only if the plan has it so: what the key of the record is declared as, what
// becomes the VM's own, and what the definition has lost isn't.
func TestRenamedOwnDisks(t *testing.T) {
	t.Parallel()

	alike := domain.OwnDisk{Pool: "vms", Bytes: 1 << 30}
	made := func(path string) domain.OwnDisk {
		o := alike
		o.Volume, o.Path = path, "/vms/"+path

		return o
	}
	file := func(path string) domain.Disk { return domain.Disk{Source: domain.DiskSource{File: "/vms/" + path}} }

	for name, c := range map[string]struct {
		defined map[string]domain.Disk
		kept    bool
		d       Desired
		// from is the volume of the disk that is declared as new, "" if it is created.
		from string
	}{
		"renamed": {
			defined: map[string]domain.Disk{"a": file("p")},
			d:       Desired{Spec: domain.Spec{Disks: map[string]domain.Disk{"new": {}}}}, from: "p",
		},
		"renamed in the definition already": {
			defined: map[string]domain.Disk{"new": file("p")},
			d:       Desired{Spec: domain.Spec{Disks: map[string]domain.Disk{"new": {}}}}, from: "p",
		},
		"its key is a file now": {
			defined: map[string]domain.Disk{"a": file("p")},
			d:       Desired{Spec: domain.Spec{Disks: map[string]domain.Disk{"a": file("other"), "new": {}}}},
		},
		"a file becomes the VM's own": {
			defined: map[string]domain.Disk{"a": file("p"), "new": file("f")},
			d: Desired{
				Spec:   domain.Spec{Disks: map[string]domain.Disk{"new": {}}},
				Handed: map[string]string{"new": "/vms/f"},
			},
		},
		"a file now, and another one is gone": {
			defined: map[string]domain.Disk{"a": file("p"), "gone": file("q")},
			d:       Desired{Spec: domain.Spec{Disks: map[string]domain.Disk{"a": file("p"), "new": {}}}}, kept: true,
		},
		"another one was removed and kept": {
			defined: map[string]domain.Disk{"a": file("p")}, kept: true,
			d: Desired{Spec: domain.Spec{Disks: map[string]domain.Disk{"new": {}}}}, from: "p",
		},
		"detached by hand": {
			defined: map[string]domain.Disk{},
			d:       Desired{Spec: domain.Spec{Disks: map[string]domain.Disk{"new": {}}}},
		},
	} {
		vm := &inventory.VM{PersistentSpec: &domain.Spec{Disks: c.defined}}
		vm.Metadata.OwnDisks = map[string]domain.OwnDisk{"a": made("p")}

		if c.kept {
			o := made("q")
			o.OnDestroy = domain.OnDestroyKeep
			vm.Metadata.OwnDisks["gone"] = o
		}

		c.d.OwnDisks = map[string]domain.OwnDisk{"new": alike}
		if got := c.d.RenamedOwnDisks(vm)["new"].Volume; got != c.from {
			t.Errorf("%s: the disk is the volume %q, want %q", name, got, c.from)
		}
	}
}
