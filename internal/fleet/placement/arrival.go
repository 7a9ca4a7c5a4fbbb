package placement

import (
	"context"
	"sync"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
)

// ReserveArrival makes the target keep room for the VM until release is called,
// unless something keeps it from taking the VM by now: a cordon, or those
// that are there or on their way. Other runs are kept out meanwhile.
func (p *Planner) ReserveArrival(
	ctx context.Context, vm *inventory.VM, to *inventory.Host, bytes uint64,
) (release func(), err error) {
	unlock, err := p.lockPlacing(ctx, to)
	if err != nil {
		return nil, err
	}

	refused, err := p.takeUncordoned(ctx, to, vm.Name, reservationFor(vm.Metadata, bytes, arrivalUse(vm, bytes)))
	if err == nil && len(refused) > 0 {
		err = &inventory.Error{VM: vm.Name, Host: vm.Host, Err: &migration.BlockedError{Blockers: refused}}
	}

	if err != nil {
		unlock()

		return nil, err
	}

	return sync.OnceFunc(func() {
		to.Forget()
		p.giveBack(to, vm.Name)
		unlock()
	}), nil
}

// RoomFor says why the target wouldn't take the VM now, if it had to run
// there.
func (p *Planner) RoomFor(ctx context.Context, vm *inventory.VM, target string) error {
	to, err := p.hosts.UsableHost(target)
	if err != nil {
		return err
	}

	release, err := p.ReserveArrival(ctx, vm, to, to.CommittedMemory(vm.Entry))
	if err != nil {
		return err
	}

	release()

	return nil
}

// takeUncordoned is take for a target that may have been cordoned since the way was
// checked.
func (p *Planner) takeUncordoned(
	ctx context.Context, to *inventory.Host, name string, r reservation,
) ([]migration.Blocker, error) {
	a, err := p.hosts.ReplyOf(ctx, to)
	if err != nil {
		return nil, err
	}

	mark, err := CordonBlocker(ctx, a)
	if err != nil {
		return nil, err
	}

	if mark != nil {
		return []migration.Blocker{*mark}, nil
	}

	return p.take(ctx, to, name, r)
}
