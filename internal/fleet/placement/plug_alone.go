package placement

import (
	"context"
	"errors"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
)

// Plugging gives disks to a VM that runs.
type Plugging struct {
	// Disks are those that the running VM doesn't have yet.
	Disks []domain.DiskUse
	// Define writes the disks into the VM's definition, where other runs see them. TakeBack undoes that, also if Define
	// failed after it wrote them, or may have written them.
	Define, TakeBack func(context.Context) error
	// Plug gives the VM what its definition has, and reads it again.
	Plug func(context.Context) error
}

// PlugAlone gives disks to a running VM as StartAlone starts one: only if no other VM writes to them, or can get them
// meanwhile. Two runs that give one disk to two VMs see it in each other's definition, because each writes before it
// looks. If it refuses, the VM and its definition are as before. It asks no host anything about disks that only one
// host can have.
func (cs *Claims) PlugAlone(ctx context.Context, vm *inventory.VM, p Plugging) error {
	c := claim{uuid: vm.UUID, name: vm.Name, host: vm.Host, disks: p.Disks, plugged: true}

	unlock, err := cs.lockNames(ctx, c)
	if err != nil {
		return err
	}
	defer unlock()

	if err := p.Define(ctx); err != nil {
		return errors.Join(err, p.TakeBack(ctx))
	}

	if len(p.Disks) == 0 {
		return p.Plug(ctx)
	}

	permit := permitStart(vm, func() {})
	permit.room = true // A change that also adds memory holds it.
	refused := true

	err = cs.takeAlone(ctx, permit, vm, c, func(held context.Context) error {
		refused = false

		return p.Plug(held)
	})

	switch {
	case err != nil && refused:
		return errors.Join(err, p.TakeBack(ctx))
	case err != nil:
		vm.On.Forget() // It may have some of the disks.
	}

	return err
}
