package inventory

import (
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
)

// TestVM_Abandoned: a volume that an interrupted run was to remove is left over, unless its VM has it, or may have it
// when its saved guest continues.
func TestVM_Abandoned(t *testing.T) {
	t.Parallel()

	const file = "/srv/data"

	removing := domain.Metadata{OwnDisks: map[string]domain.OwnDisk{"data": {Removing: true, Path: file}}}
	with := &domain.Spec{Disks: map[string]domain.Disk{"other": {Source: domain.DiskSource{File: file}}}}
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
			t.Errorf("%s: abandoned is %v; want %v", name, got, test.want)
		}
	}
}
