package placement

import (
	"context"
	"maps"
	"sync"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/lease"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
)

// Arrival is room that is reserved on a host for a VM that moves there.
type Arrival struct {
	// Devices are all host devices of a VM that requests some by class, with the target's; nil if it requests none.
	Devices map[string]domain.Row
	// Verify returns an error if another run may have taken the room meanwhile: this run lost its lock on the host's room.
	// It is called right before the VM gets to the target.
	Verify func() error
	// Release ends the reservation. It may be called more than once.
	Release func()
}

// ReserveArrival reserves room for the VM on the target until it is released. It returns an error if the target can't
// accept the VM now: because of a cordon, or because of the VMs that are there or on their way. Meanwhile, other runs
// can't place VMs there.
//
// starts says that the VM is started there from its definition: it is off, or is turned off before it moves. Otherwise
// it comes as it is.
func (p *Scheduler) ReserveArrival(
	ctx context.Context, vm *inventory.VM, to *inventory.Host, starts bool,
) (*Arrival, error) {
	held, unlock, err := p.lockPlacing(ctx, to)
	if err != nil {
		return nil, err
	}

	devices, refused, err := p.reserveWithDevices(held, vm, to, starts)
	if err == nil && len(refused) > 0 {
		err = &inventory.Error{VM: vm.Name, Host: vm.Host, Err: &migration.BlockedError{Blockers: refused}}
	}

	if err != nil {
		unlock()

		return nil, err
	}

	return &Arrival{
		Devices: devices,
		Verify:  func() error { return lease.Confirm(held) },
		Release: sync.OnceFunc(func() {
			to.Forget()
			p.releaseReservation(to, vm.Name)
			unlock()
		}),
	}, nil
}

// reserveWithDevices reserves what an arriving VM needs, with the devices that it requests by class.
func (p *Scheduler) reserveWithDevices(
	ctx context.Context, vm *inventory.VM, to *inventory.Host, starts bool,
) (devices map[string]domain.Row, refused []migration.Blocker, err error) {
	chosen, err := p.chooseDevices(ctx, to, vm.PersistentSpec)
	if err != nil {
		return nil, nil, err
	}
	defer chosen()

	for {
		a, err := p.hosts.ReplyOf(ctx, to)
		if err != nil {
			return nil, nil, err
		}

		use, now, refused := p.arrivalUse(ctx, a, vm, starts)
		if len(refused) > 0 {
			return nil, refused, nil
		}

		r := reservationFor(vm.Metadata, arrivingMemory(vm, to, starts), use)
		r.defined = domain.Spec{HostDevices: now}.HostUse()

		refused, err = p.reserveUnlessCordoned(ctx, to, vm.Name, r)
		if err != nil || len(refused) == 0 || maps.EqualFunc(now, devices, maps.Equal) {
			return now, refused, err
		}

		devices = now // another VM of this run may have been given one of them in between
	}
}

// reserveUnlessCordoned is addReservation for a target that may have been cordoned since the route was checked.
func (p *Scheduler) reserveUnlessCordoned(
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

	return p.addReservation(ctx, to, name, r)
}
