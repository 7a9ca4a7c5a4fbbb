package placement

import (
	"context"
	"fmt"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
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

// beginArrival keeps this run from cordoning the host until done is called: a VM that was placed or started there
// before the cordon is seen by the drain that follows it. It must not be nested.
func (co *Cordons) beginArrival(ctx context.Context, h *inventory.Host) (done func(), err error) {
	if err := co.arrivals[h].Acquire(ctx, 1); err != nil {
		return nil, err
	}

	return func() { co.arrivals[h].Release(1) }, nil
}

// endArrivals waits until every arrival of this run is over, and lets none begin before resume is called.
func (co *Cordons) endArrivals(ctx context.Context, h *inventory.Host) (resume func(), err error) {
	if err := co.arrivals[h].Acquire(ctx, manyArrivals); err != nil {
		return nil, err
	}

	return func() { co.arrivals[h].Release(manyArrivals) }, nil
}

// Admit makes a host keep room for a VM that it is to start, until release is called: as a creation does, a start asks
// for memory, and for a host that isn't cordoned.
//
// One that is restarted where it runs needs no more than memory. What it has counts until it is off, and this run keeps
// the rest: other runs aren't kept from placing VMs for as long as its guest takes to shut down.
func (p *Planner) Admit(ctx context.Context, vm *inventory.VM) (release func(), err error) {
	arrived := func() {}

	if !vm.Active {
		if arrived, err = p.beginArrival(ctx, vm.On); err != nil {
			return nil, err
		}
	}

	unlock, err := p.lockPlacing(ctx, vm.On)
	if err != nil {
		arrived()

		return nil, err
	}

	refused, err := p.admission(ctx, vm)
	if err == nil && len(refused) == 0 {
		refused, err = p.addReservation(ctx, vm.On, vm.Name, startReservation(vm))
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

		return sync.OnceFunc(func() { p.releaseReservation(vm.On, vm.Name) }), nil
	}

	return sync.OnceFunc(func() {
		p.releaseReservation(vm.On, vm.Name)
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

// UnlessCordoned refuses to start a VM that is off on a host that is cordoned by now.
func (p *Planner) UnlessCordoned(ctx context.Context, vm *inventory.VM) error {
	refused, err := p.admission(ctx, vm)
	if err != nil {
		return err
	}

	return unlessRefused(vm, refused)
}

// admission is the cordon that keeps a VM that is off from being started.
func (p *Planner) admission(ctx context.Context, vm *inventory.VM) ([]migration.Blocker, error) {
	if vm.Active {
		return nil, nil
	}

	vm.On.ForgetRecord() // It may have been cordoned by now.

	a, err := p.hosts.ReplyOf(ctx, vm.On)
	if err != nil {
		return nil, err
	}

	mark, err := CordonBlocker(ctx, a)
	if err != nil || mark == nil {
		return nil, err
	}

	return []migration.Blocker{*mark}, nil
}

// startReservation is what the next start takes of the host. With whom the VM shares it was decided when it came.
func startReservation(vm *inventory.VM) reservation {
	r := reservation{uuid: vm.UUID}
	if spec := vm.PersistentSpec; spec != nil {
		r.bytes = vm.On.WithOverhead(spec.UsableMemory(), vm.Entry)
		r.use = spec.HostUse().Recorded(vm.Metadata)
	}

	return r
}

// admissionProblems warn in the plan of what would refuse the start, or the memory that is added, in the apply. Other
// VMs may have gone by then.
func (p *Planner) admissionProblems(
	ctx context.Context, vm *inventory.VM, d Desired,
) ([]inventory.Problem, error) {
	r := p.addedReservation(vm, d)
	summary := "Host can't take the change"

	var blockers []migration.Blocker

	if d.PowerAction(vm) == status.Start {
		if err := VerifyStartable(vm); err != nil {
			return nil, err
		}

		var err error
		if blockers, err = p.admission(ctx, vm); err != nil {
			return nil, err
		}

		r, summary = startReservation(vm), "Virtual machine can't be started now"
	} else if r.bytes == 0 {
		return nil, nil
	}

	a, err := p.hosts.ReplyOf(ctx, vm.On)
	if err != nil {
		return nil, err
	}

	p.reservations.mu.Lock()
	blockers = append(blockers, p.reservationBlockers(a, vm.Name, r)...)
	p.reservations.mu.Unlock()

	problems := make([]inventory.Problem, 0, len(blockers))
	for _, b := range blockers {
		problems = append(problems, inventory.Problem{
			Attribute: b.Attribute, Summary: summary, Warning: true, Detail: b.Message, Remedy: b.Remedy,
		})
	}

	return problems, nil
}

// VerifyStartable refuses to start a stopped VM as long as a host is silent: it may run there.
func VerifyStartable(vm *inventory.VM) error {
	if len(vm.SilentHosts) == 0 {
		return nil
	}

	return &inventory.Error{
		VM: vm.Name, Host: vm.SilentHosts[0], Kind: inventory.ErrUnreachable,
		Detail: fmt.Sprintf("it is not started, since it may be running on %s, which can't be asked",
			inventory.QuoteList(vm.SilentHosts)),
		Remedy: "Bring the host back. Or make sure that it is off, then set its fenced = true: its VMs are then created on " +
			"other hosts.",
	}
}
