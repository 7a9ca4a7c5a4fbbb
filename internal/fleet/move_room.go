package fleet

import (
	"context"
	"slices"
	"sync"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
)

// preflight finds everything that blocks the move. It asks anew where
// the target seems to be full: who was in the way may have left since it was read.
func (m *move) preflight(ctx context.Context) (migration.VM, []migration.Blocker, error) {
	machine, blockers, err := m.fleet.preflight(ctx, m.vm, m.to, m.tuning.Options, true)

	if err == nil && slices.ContainsFunc(blockers, func(b migration.Blocker) bool { return ofRoom(b.Reason) }) {
		m.to.Forget()
		blockers, err = m.fleet.preflightTo(ctx, m.vm, machine, m.to, m.tuning.Options)
	}

	return machine, blockers, err
}

// reserve makes the target keep room for the VM until release is called,
// unless something keeps it from taking the VM by now: a cordon, or those
// that are there or on their way. Other runs are kept out meanwhile.
func (m *move) reserve(ctx context.Context, bytes uint64) (release func(), err error) {
	f, name := m.fleet, m.vm.Name

	unlock, err := f.lockPlacing(ctx, m.to)
	if err != nil {
		return nil, err
	}

	refused, err := m.take(ctx, reservationFor(m.vm.Metadata, bytes))
	if err == nil && len(refused) > 0 {
		err = &inventory.Error{VM: name, Host: m.from.Name, Err: &migration.BlockedError{Blockers: refused}}
	}

	if err != nil {
		unlock()

		return nil, err
	}

	return sync.OnceFunc(func() {
		m.to.Forget()
		f.giveBack(m.to, name)
		unlock()
	}), nil
}

// roomFor says why the target wouldn't take the VM now, if it had to run
// there.
func (f *Fleet) roomFor(ctx context.Context, vm *inventory.VM, target string) error {
	to, err := f.UsableHost(target)
	if err != nil {
		return err
	}

	release, err := (&move{fleet: f, vm: vm, from: vm.On, to: to}).reserve(ctx, to.CommittedMemory(vm.Entry))
	if err != nil {
		return err
	}

	release()

	return nil
}

// take is Fleet.take for a target that may have been cordoned since the way was
// checked.
func (m *move) take(ctx context.Context, r reservation) ([]migration.Blocker, error) {
	a, err := m.fleet.ReplyOf(ctx, m.to)
	if err != nil {
		return nil, err
	}

	mark, err := cordonBlocker(ctx, a)
	if err != nil {
		return nil, err
	}

	if mark != nil {
		return []migration.Blocker{*mark}, nil
	}

	return m.fleet.take(ctx, m.to, m.vm.Name, r)
}

// reserveForCold is reserve for a VM that is off.
func (m *move) reserveForCold(ctx context.Context, machine migration.VM) (release func(), err error) {
	if m.starts {
		return m.reserve(ctx, m.to.WithOverhead(machine.Facts.Memory, m.vm.Entry))
	}

	return m.reserve(ctx, 0)
}
