package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// savingLimit is how long a guest that is to be stopped is waited for while its
// memory is written to a file: 64 GiB at 100 MB/s take eleven minutes.
const savingLimit = 30 * time.Minute

// saving says that the guest stands still while its memory is written to a file:
// by a save, a dump, or a snapshot. That ends by itself.
func saving(d *libvirt.Domain) bool {
	if d == nil || d.State != libvirt.Paused {
		return false
	}

	switch d.Reason {
	case libvirt.ReasonSave, libvirt.ReasonDump, libvirt.ReasonSnapshot:
		return true
	default:
		return false
	}
}

// awaitSaved waits until the guest's memory isn't being written to a file any more,
// and returns the VM as it is then. One that has left its host meanwhile is
// returned as one that is off.
func (m *Manager) awaitSaved(ctx context.Context, vm *inventory.VM) (*inventory.VM, error) {
	waiting, cancel := context.WithTimeout(ctx, savingLimit)
	defer cancel()

	var now *libvirt.Domain

	_, err := inventory.Await(waiting, vm, func(d *libvirt.Domain) bool {
		if saving(d) && now == nil {
			m.log.InfoContext(ctx, "waiting for the guest's memory to be written", "name", vm.Name, "host", vm.Host,
				"reason", d.Reason)
		}

		now = d

		return !saving(d)
	})

	switch {
	case err != nil && now == nil:
		return nil, err
	case err != nil:
		return nil, &inventory.Error{
			VM: vm.Name, Host: vm.Host, Kind: inventory.ErrBusy, Err: err,
			Detail: fmt.Sprintf("its memory is still being written to a file (%s), and it was not forced off", now.Reason),
			Remedy: "Wait for that to end, or abort it with virsh domjobabort, and apply again.",
		}
	}

	return withState(vm, now), nil
}

// withState is the VM in the state that its host tells now; nil is none, and the VM is off.
func withState(vm *inventory.VM, now *libvirt.Domain) *inventory.VM {
	is := *vm
	if now == nil {
		is.Active = false

		return &is
	}

	is.State, is.Reason, is.Active, is.ManagedSave = now.State, now.Reason, now.Active(), now.ManagedSave

	return &is
}

// pausedByIOError says that the guest stands still for an error of its storage.
// What it holds in memory it can still write once the storage is back.
func pausedByIOError(state libvirt.DomainState, reason string) bool {
	return state == libvirt.Paused && reason == libvirt.ReasonIOError
}

// unlessIOError refuses to force off a guest that is paused by an I/O error,
// unless it is to have no time at all, or has had it.
func unlessIOError(vm *inventory.VM, how stopping) error {
	if how.grace == 0 || how.forceIOError || !pausedByIOError(vm.State, vm.Reason) {
		return nil
	}

	return &inventory.Error{
		VM: vm.Name, Host: vm.Host, Kind: ErrNotReady,
		Detail: "its guest is paused by an I/O error and can't shut down; it was not forced off",
		Remedy: "Repair the storage, resume the VM with \"virsh resume\", and apply again. If the guest's memory may be " +
			"lost, end it with \"virsh destroy\" first.",
	}
}

// awaitStorage gives a guest that is paused by an I/O error the grace period: its
// storage may be repaired and the guest resumed, which then has the whole grace
// period to shut down. It returns the VM as it is then.
func (m *Manager) awaitStorage(ctx context.Context, vm *inventory.VM, how stopping) (*inventory.VM, error) {
	if err := unlessIOError(vm, how); err != nil {
		return nil, err
	}

	if how.grace == 0 || !pausedByIOError(vm.State, vm.Reason) {
		return vm, nil
	}

	m.log.WarnContext(ctx, "guest is paused by an I/O error, waiting for its storage", "name", vm.Name, "host", vm.Host,
		"grace_period", how.grace)

	waiting, cancel := context.WithDeadlineCause(ctx, time.Now().Add(how.grace), errTimeIsUp)
	defer cancel()

	var now *libvirt.Domain

	resumed, err := inventory.Await(waiting, vm, func(d *libvirt.Domain) bool {
		now = d

		return !saving(d) && (d == nil || !pausedByIOError(d.State, d.Reason))
	})

	switch {
	case resumed:
		return withState(vm, now), nil
	case errors.Is(err, errTimeIsUp):
		return vm, nil
	case ctx.Err() != nil:
		return nil, &inventory.Error{
			VM: vm.Name, Host: vm.Host, Kind: ErrNotReady, Err: err,
			Detail: "its guest was still paused by an I/O error when the wait for its storage ended; it was not forced off",
			Remedy: "Repair the storage, resume the VM with \"virsh resume\", and apply again.",
		}
	default:
		return nil, err
	}
}
