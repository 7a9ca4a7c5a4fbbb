package lifecycle

import (
	"context"
	"fmt"
)

// removeStale removes definitions of the VM that other hosts still have.
func (u *update) removeStale(ctx context.Context) error {
	err := u.manager.mover.RemoveStale(ctx, u.vm)
	if err == nil {
		u.vm.StaleHosts = nil
	}

	return err
}

// removeCopies removes what interrupted and failed moves left on other hosts. What can't be removed doesn't fail the
// update: it stays recorded, and the next one tries again.
func (u *update) removeCopies(ctx context.Context) error {
	left := u.vm.UnfinishedCopies()
	if len(left) == 0 {
		return nil
	}

	now, err := u.manager.mover.DiscardCopies(ctx, u.vm, nil)
	u.vm = now

	if err != nil {
		u.kept = append(u.kept, fmt.Sprintf("what an interrupted move left (%s): %v", left[0].Path, err))
	}

	return nil
}

// removeLeftVolumes removes volumes that earlier runs have left on other hosts.
func (u *update) removeLeftVolumes(ctx context.Context) (err error) {
	u.vm.KeptDisks = nil // They are in u.kept.
	u.vm, err = u.manager.mover.RemoveLeftVolumes(ctx, u.vm, nil, false)
	u.kept = append(u.kept, u.vm.KeptDisks...)

	return err
}
