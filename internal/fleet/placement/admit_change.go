package placement

import (
	"context"
	"slices"
	"sync"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
)

// AdmitChange returns the VM's spec with the devices of its host that it requests by class. The VM keeps the devices
// that it has if they belong to the class. Further devices are reserved for it until release is called, and so is
// memory that is added while it runs, with the same checks as for a start. The VM gets both with the returned context:
// nothing is changed in it once another run may place VMs there.
func (p *Scheduler) AdmitChange(
	ctx context.Context, vm *inventory.VM, d Desired,
) (spec domain.Spec, held context.Context, release func(), err error) {
	spec, r, err := p.changeReservation(ctx, vm, d)
	if err != nil || r.defined.Empty() && r.bytes == 0 {
		return spec, ctx, func() {}, err
	}

	held, unlock, err := p.lockPlacing(ctx, vm.On)
	if err != nil {
		return spec, nil, nil, err
	}

	spec, err = p.takeChange(held, vm, d)
	if err != nil {
		unlock()

		return spec, nil, nil, err
	}

	return spec, held, sync.OnceFunc(func() {
		p.releaseReservation(vm.On, vm.Name)
		unlock()
	}), nil
}

// takeChange reserves what AdmitChange returns.
func (p *Scheduler) takeChange(ctx context.Context, vm *inventory.VM, d Desired) (domain.Spec, error) {
	chosen, err := p.chooseDevices(ctx, vm.On, &d.Spec)
	if err != nil {
		return d.Spec, err
	}
	defer chosen()

	for {
		if err := context.Cause(ctx); err != nil {
			return d.Spec, err
		}

		spec, r, err := p.changeReservation(ctx, vm, d)
		if err != nil {
			return spec, err
		}

		refused, err := p.addReservation(ctx, vm.On, vm.Name, r)

		switch {
		case err != nil || len(refused) == 0:
			return spec, err
		case slices.ContainsFunc(refused, isMemory):
			return spec, unlessRefused(vm, refused)
		}
		// Another VM of this run was given one of the devices in between.
	}
}

func isMemory(b migration.Blocker) bool { return b.Reason == migration.InsufficientMemory }

// changeReservation returns what a change of a VM uses of its host in addition to what the VM has, and the spec with
// the devices for it.
func (p *Scheduler) changeReservation(
	ctx context.Context, vm *inventory.VM, d Desired,
) (spec domain.Spec, r reservation, err error) {
	r = p.addedReservation(vm, d)

	if len(d.Spec.DeviceClasses()) == 0 {
		return d.Spec, r, nil
	}

	a, err := p.hosts.ReplyOf(ctx, vm.On)
	if err != nil {
		return d.Spec, r, err
	}

	q := d.requestOf(vm)

	spec, short := p.assignDevices(ctx, a, q)
	if len(short) > 0 {
		return d.Spec, r, &inventory.Error{
			VM: vm.Name, Host: vm.Host, Kind: inventory.ErrBusy, Detail: "the host " + short[0].Message,
			Remedy: remedyFor(short[0].Path),
		}
	}

	r.use, r.defined = q.fresh(spec)

	return spec, r, nil
}

// addedReservation returns the total that a running VM uses of its host after a change has added memory to it; nothing
// if the change adds no memory on this host. Memory that the balloon returns to the guest doesn't count as added: it is
// committed to the VM all the time.
func (p *Scheduler) addedReservation(vm *inventory.VM, d Desired) reservation {
	r := reservation{uuid: vm.UUID}

	parsed := vm.Entry.Parse()
	moves := d.Metadata.Host != "" && p.hosts.Host(d.Metadata.Host) != vm.On

	if parsed.Live == nil || !d.runsOn(vm) || moves {
		return r
	}

	// If the memory can't be changed, the change itself reports it.
	if more, err := domain.LiveMemory(parsed.Live, parsed.Persistent, d.Spec); err == nil && more > 0 {
		r.bytes = vm.On.CommittedMemory(vm.Entry) + more
	}

	return r
}
