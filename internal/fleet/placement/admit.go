package placement

import (
	"context"
	"fmt"

	"golang.org/x/sync/semaphore"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
)

// manyArrivals is more VMs than a run ever has on their way to one host.
const manyArrivals = 1 << 30

func newArrivals(hosts []*inventory.Host) map[*inventory.Host]*semaphore.Weighted {
	arrivals := make(map[*inventory.Host]*semaphore.Weighted, len(hosts))
	for _, h := range hosts {
		arrivals[h] = semaphore.NewWeighted(manyArrivals)
	}

	return arrivals
}

// beginArrival prevents this run from cordoning the host until done is called: the drain that follows a cordon then
// sees every VM that was placed or started there before. It must not be nested.
func (co *Cordons) beginArrival(ctx context.Context, h *inventory.Host) (done func(), err error) {
	if err := co.arrivals[h].Acquire(ctx, 1); err != nil {
		return nil, err
	}

	return func() { co.arrivals[h].Release(1) }, nil
}

// endArrivals waits until every arrival of this run is over, and lets no other begin before resume is called.
func (co *Cordons) endArrivals(ctx context.Context, h *inventory.Host) (resume func(), err error) {
	if err := co.arrivals[h].Acquire(ctx, manyArrivals); err != nil {
		return nil, err
	}

	return func() { co.arrivals[h].Release(manyArrivals) }, nil
}

// Admit reserves room on a host for a VM that is about to start there, until the permit is released. Like a creation, a
// start requires memory, and a host that isn't cordoned.
//
// A VM that is restarted where it runs requires only memory. What it has counts until it is off, and only this run
// reserves the rest: other runs can place VMs while its guest shuts down, which may take long.
//
// The VM is started with the returned context: nothing is changed in it once another run may place VMs there.
func (p *Scheduler) Admit(
	ctx context.Context, vm *inventory.VM,
) (held context.Context, permit *StartPermit, err error) {
	arrived := func() {}

	if !vm.Active {
		if arrived, err = p.beginArrival(ctx, vm.On); err != nil {
			return nil, nil, err
		}
	}

	held, unlock, err := p.lockPlacing(ctx, vm.On)
	if err != nil {
		arrived()

		return nil, nil, err
	}

	refused, err := p.startBlockers(held, vm)
	if err == nil {
		err = verifyArrived(held, vm)
	}

	if err == nil && len(refused) == 0 {
		refused, err = p.addReservation(held, vm.On, vm.Name, startReservation(vm))
	}

	if err == nil {
		err = unlessRefused(vm, refused)
	}

	if err != nil {
		unlock()
		arrived()

		return nil, nil, err
	}

	if vm.Active {
		unlock()

		permit = permitStart(vm, func() { p.releaseReservation(vm.On, vm.Name) })
		permit.returns = true

		return ctx, permit, nil
	}

	permit = permitStart(vm, func() {
		p.releaseReservation(vm.On, vm.Name)
		unlock()
		arrived()
	})
	permit.room = true

	return held, permit, nil
}

// unlessRefused returns the error that blockers keep the VM from being started, or changed, where it is.
func unlessRefused(vm *inventory.VM, blockers []migration.Blocker) error {
	if len(blockers) == 0 {
		return nil
	}

	blocked := fmt.Sprintf("the VM can't be started on host %q", vm.Host)
	if vm.Active {
		blocked = fmt.Sprintf("host %q can't take the change of the VM", vm.Host)
	}

	return &inventory.Error{
		VM: vm.Name, Host: vm.Host, Err: &migration.BlockedError{Blockers: blockers, Blocked: blocked},
	}
}

// startBlockers returns the cordon that blocks the start of a VM that is off.
func (p *Scheduler) startBlockers(ctx context.Context, vm *inventory.VM) ([]migration.Blocker, error) {
	if vm.Active {
		return nil, nil
	}

	vm.On.ForgetRecord() // it may be cordoned by now

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

// startReservation returns what the next start uses of the host. The anti-affinity was checked when the VM came to the
// host.
func startReservation(vm *inventory.VM) reservation {
	r := reservation{uuid: vm.UUID}
	if vm.PersistentSpec != nil {
		r.bytes = vm.On.StartedMemory(vm.Entry)
		r.use = vm.Entry.DefinedUse().WithMetadata(vm.Metadata)
	}

	return r
}

// admissionProblems returns warnings for the plan: what would refuse the start, or the added memory, in the apply.
// Other VMs may be gone by then.
func (p *Scheduler) admissionProblems(
	ctx context.Context, vm *inventory.VM, d Desired,
) ([]inventory.Problem, error) {
	r := p.addedReservation(vm, d)
	summary := changeSummary

	var blockers []migration.Blocker

	if d.PowerAction(vm) == status.Start {
		if err := VerifyStartable(vm); err != nil {
			return nil, err
		}

		var err error
		if blockers, err = p.startBlockers(ctx, vm); err != nil {
			return nil, err
		}

		r, summary = startReservation(vm), startSummary
	} else if r.bytes == 0 {
		return nil, nil
	}

	a, err := p.hosts.ReplyOf(ctx, vm.On)
	if err != nil {
		return nil, err
	}

	r.has = offerTo(ctx, a, r.use, r.uuid)

	p.reservations.mu.Lock()
	blockers = append(blockers, p.reservationBlockers(a, vm.Name, r)...)
	p.reservations.mu.Unlock()

	problems := make([]inventory.Problem, 0, len(blockers))
	for _, b := range blockers {
		problems = append(problems, inventory.Problem{
			Attribute: b.Attribute, Summary: summary, Warning: true, Detail: b.Message, Remedy: b.Remedy,
		})
	}

	if summary != startSummary {
		return problems, nil
	}

	if len(problems) == 0 {
		problems = p.planUpdate(ctx, a, vm, d)
	}

	return append(problems, p.startsUnfinished(ctx, vm, d)...), nil
}

// VerifyStartable returns an error if a host is unreachable, because the stopped VM may run there.
func VerifyStartable(vm *inventory.VM) error {
	if len(vm.SilentHosts) == 0 {
		return nil
	}

	return &inventory.Error{
		VM: vm.Name, Host: vm.SilentHosts[0], Kind: inventory.ErrUnreachable,
		Detail: fmt.Sprintf("it is not started, since it may be running on %s, which can't be asked. It is off on host %q",
			inventory.QuoteList(vm.SilentHosts), vm.Host),
		Remedy: "Bring the host back. Or make sure that it is off, then set its fenced = true: its VMs are then created on " +
			"other hosts.",
	}
}
