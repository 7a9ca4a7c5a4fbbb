package inventory

import (
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
)

// TestVM_Abandoned: a volume that an interrupted run was to remove is left over, unless its VM has it, or may have it
// when its saved guest continues.
func TestVM_Abandoned(t *testing.T) {
	t.Parallel()

	testAbandoned(t, "/srv/data", domain.DiskSource{File: "/srv/data"})
	// Through whichever monitors the VM reaches an RBD image.
	testAbandoned(t, "vms/data", domain.DiskSource{Network: &domain.NetworkSource{
		Protocol: "rbd", Name: "vms/data", Hosts: []string{"ceph2:6789"}, Values: domain.Values{"snapshot": ""},
	}})
}

func testAbandoned(t *testing.T, at string, source domain.DiskSource) {
	t.Helper()

	removing := domain.Metadata{OwnDisks: map[string]domain.OwnDisk{"data": {Removing: true, Path: at}}}
	with := &domain.Spec{Disks: map[string]domain.Disk{"other": {Source: source}}}
	without := &domain.Spec{}

	for name, test := range map[string]struct {
		vm   VM
		want bool
	}{
		"no definition has it":            {VM{PersistentSpec: without}, true},
		"the guest has it until it stops": {VM{PersistentSpec: without, LiveSpec: with}, false},
		"the saved guest may have it":     {VM{PersistentSpec: without, ManagedSave: true}, false},
	} {
		test.vm.Metadata = removing
		if got := test.vm.Abandoned("data"); got != test.want {
			t.Errorf("%s, %s: abandoned is %v; want %v", at, name, got, test.want)
		}
	}
}

// A first-boot medium that another has replaced is left over, unless the guest still has it.
func TestVM_Abandoned_firstBootMedium(t *testing.T) {
	t.Parallel()

	const old, now = domain.MediumKey + ".old", domain.MediumKey
	spec := func(file string) *domain.Spec {
		return &domain.Spec{Disks: map[string]domain.Disk{now: {Source: domain.DiskSource{File: file}}}}
	}

	for name, test := range map[string]struct {
		vm   VM
		want bool
	}{
		"another replaced it":            {VM{PersistentSpec: spec("/now"), LiveSpec: spec("/now")}, true},
		"the guest has it until it ends": {VM{PersistentSpec: spec("/now"), LiveSpec: spec("/old")}, false},
		"the saved guest may have it":    {VM{PersistentSpec: spec("/now"), ManagedSave: true}, false},
		"the VM has neither":             {VM{PersistentSpec: spec("/x")}, false}, // LeftFirstBoot has it.
	} {
		test.vm.Metadata.OwnDisks = map[string]domain.OwnDisk{old: {Path: "/old"}, now: {Path: "/now"}}
		if got := test.vm.Abandoned(old); got != test.want {
			t.Errorf("%s: abandoned is %v; want %v", name, got, test.want)
		}

		if test.vm.Abandoned(now) {
			t.Errorf("%s: the medium itself is abandoned", name)
		}
	}
}
