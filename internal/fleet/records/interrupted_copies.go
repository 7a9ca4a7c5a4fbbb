package records

import (
	"context"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
)

// NoteInterrupted notes in the VM which copies interrupted and failed moves left on other hosts. What a run is still
// copying isn't left over. Only a VM that has such copies, and whose last move has no result, costs calls.
func (s *Store) NoteInterrupted(ctx context.Context, vm *inventory.VM) error {
	left := vm.UnfinishedCopies()
	if len(left) == 0 || vm.Migrating || vm.BrokeInPostCopy() {
		return nil
	}

	if vm.OpenMigration() != nil {
		who, err := s.LiveHolder(ctx, vm.On, vm.UUID)
		if err != nil || who != "" {
			return err
		}
	}

	vm.Interrupted = left

	return nil
}
