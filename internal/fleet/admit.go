package fleet

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
)

// manyArrivals is more than a run ever has VMs on their way to one host.
const manyArrivals = 1 << 30

func newArrivals(hosts []*inventory.Host) map[*inventory.Host]*semaphore.Weighted {
	arrivals := make(map[*inventory.Host]*semaphore.Weighted, len(hosts))
	for _, h := range hosts {
		arrivals[h] = semaphore.NewWeighted(manyArrivals)
	}

	return arrivals
}

// beginArrival keeps this run from cordoning the host until done is called: a VM
// that was placed or started there before the cordon is seen by the drain that
// follows it. It must not be nested.
func (f *Fleet) beginArrival(ctx context.Context, h *inventory.Host) (done func(), err error) {
	if err := f.arrivals[h].Acquire(ctx, 1); err != nil {
		return nil, err
	}

	return func() { f.arrivals[h].Release(1) }, nil
}

// endArrivals waits until every arrival of this run is over, and lets none begin
// before resume is called.
func (f *Fleet) endArrivals(ctx context.Context, h *inventory.Host) (resume func(), err error) {
	if err := f.arrivals[h].Acquire(ctx, manyArrivals); err != nil {
		return nil, err
	}

	return func() { f.arrivals[h].Release(manyArrivals) }, nil
}

// admit makes a host keep room for a VM that it is to start, until release is
// called: as a creation does, a start asks for memory, and for a host that isn't
// cordoned.
//
// One that is restarted where it runs needs no more than memory. What it has counts
// until it is off, and this run keeps the rest: other runs aren't kept from placing
// VMs for as long as its guest takes to shut down.
func (f *Fleet) admit(ctx context.Context, vm *inventory.VM) (release func(), err error) {
	arrived := func() {}

	if !vm.Active {
		if arrived, err = f.beginArrival(ctx, vm.On); err != nil {
			return nil, err
		}
	}

	unlock, err := f.lockPlacing(ctx, vm.On)
	if err != nil {
		arrived()

		return nil, err
	}

	refused, err := f.admission(ctx, vm)
	if err == nil && len(refused) == 0 {
		refused, err = f.take(ctx, vm.On, vm.Name, startReservation(vm))
	}

	if err == nil {
		err = unlessRefused(vm, refused)
	}

	if err != nil {
		unlock()
		arrived()

		return nil, err
	}

	if vm.Active {
		unlock()

		return sync.OnceFunc(func() { f.giveBack(vm.On, vm.Name) }), nil
	}

	return sync.OnceFunc(func() {
		f.giveBack(vm.On, vm.Name)
		unlock()
		arrived()
	}), nil
}

func unlessRefused(vm *inventory.VM, blockers []migration.Blocker) error {
	if len(blockers) == 0 {
		return nil
	}

	return &inventory.Error{VM: vm.Name, Host: vm.Host, Err: &migration.BlockedError{Blockers: blockers}}
}

// unlessCordoned refuses to start a VM that is off on a host that is cordoned by now.
func (f *Fleet) unlessCordoned(ctx context.Context, vm *inventory.VM) error {
	refused, err := f.admission(ctx, vm)
	if err != nil {
		return err
	}

	return unlessRefused(vm, refused)
}

// admission is the cordon that keeps a VM that is off from being started.
func (f *Fleet) admission(ctx context.Context, vm *inventory.VM) ([]migration.Blocker, error) {
	if vm.Active {
		return nil, nil
	}

	vm.On.ForgetRecord() // It may have been cordoned by now.

	a, err := f.ReplyOf(ctx, vm.On)
	if err != nil {
		return nil, err
	}

	mark, err := cordonBlocker(ctx, a)
	if err != nil || mark == nil {
		return nil, err
	}

	return []migration.Blocker{*mark}, nil
}

// startReservation is what the next start takes of the host. With whom the VM
// shares it was decided when it came.
func startReservation(vm *inventory.VM) reservation {
	r := reservation{uuid: vm.UUID}
	if spec := vm.PersistentSpec; spec != nil && spec.Memory.Installed != nil {
		r.bytes = vm.On.WithOverhead(*spec.Memory.Installed, vm.Entry)
	}

	return r
}

// admissionProblems warn in the plan of what would refuse the start in the apply.
func (f *Fleet) admissionProblems(ctx context.Context, vm *inventory.VM) ([]inventory.Problem, error) {
	blockers, err := f.admission(ctx, vm)
	if err != nil {
		return nil, err
	}

	a, err := f.ReplyOf(ctx, vm.On)
	if err != nil {
		return nil, err
	}

	f.reservations.mu.Lock()
	blockers = append(blockers, f.roomBlockers(a, vm.Name, startReservation(vm))...)
	f.reservations.mu.Unlock()

	problems := make([]inventory.Problem, 0, len(blockers))
	for _, b := range blockers {
		problems = append(problems, inventory.Problem{
			Attribute: b.Attribute, Summary: "Virtual machine can't be started now", Warning: true,
			Detail: b.Message, Remedy: b.Remedy,
		})
	}

	return problems, nil
}
