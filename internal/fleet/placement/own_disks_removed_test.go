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

		if _, same := RenamedOwnDisks(OwnDisks(vm), d.OwnDisks)["data"]; same == (name == "renamed") {
			t.Errorf("%s: it is the same disk: %t", name, !same)
		}

		if got := fmt.Sprint(d.warnDroppedDisks(vm)); strings.Contains(got, "deleted with their data") != c.says {
			t.Errorf("%s: the plan says %s", name, got)
		}
	}
}
