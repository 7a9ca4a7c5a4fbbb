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
