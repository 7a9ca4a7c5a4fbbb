package lifecycle

import (
	"context"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/move"
)

// DeleteReport says how a VM was removed.
type DeleteReport struct {
	// Host is where it was.
	Host string
	// Outcome says how it came to be off.
	Outcome inventory.Outcome
	// SilentHosts did not answer. A stale definition there was not removed.
	SilentHosts []string
	// KeptDisks are own disks that should have been removed with it, and why they stay.
	KeptDisks []string
}

// Delete shuts the VM down, and removes its own disks, its definition and stale definitions on other hosts. Other disks
// stay. If no host has the VM, that is no error.
func (m *Manager) Delete(
	ctx context.Context, uuid string, last inventory.LastKnown, grace time.Duration,
) (*DeleteReport, error) {
	ctx, unlock, vm, err := m.mover.LockWhereItIs(inventory.AsOneOperation(ctx), uuid, last, "deleting", nil)
	if inventory.IsNotFound(err) {
		return &DeleteReport{Outcome: inventory.OutcomeNotRunning}, nil
	}

	if err != nil {
		return nil, err
	}
	defer unlock()

	report := &DeleteReport{Host: vm.Host, SilentHosts: vm.SilentHosts}

	// Before it is stopped: if it is unknown what would be removed, the VM keeps running.
	if err := m.checkOwnDisks(ctx, vm, false); err != nil {
		return report, err
	}

	report.Outcome, err = m.stopWith(ctx, vm, stopOptions{grace: grace, forceIOError: true})
	if err == nil {
		err = m.verifyNotSaved(ctx, vm)
	}

	if err != nil {
		vm.On.Forget()

		return report, err
	}

	// The record of incomplete copies is removed with the VM.
	if len(vm.Metadata.Copies) > 0 {
		if _, err := m.mover.DiscardCopies(ctx, vm, nil); err != nil {
			m.log.WarnContext(ctx, "an unfinished copy was not removed", "name", vm.Name, "error", err.Error())
		}
	}

	// While it is defined: if this run is interrupted, the next one reads there which disks are left.
	if report.KeptDisks, err = m.releaseOwnDisks(ctx, vm, false); err != nil {
		return report, err
	}

	if _, err := m.mover.RemoveLeftVolumes(ctx, vm, nil, false); err != nil {
		report.KeptDisks = append(report.KeptDisks, err.Error())
	}

	if err := move.Undefine(ctx, vm.On, uuid); err != nil {
		return report, err
	}

	return report, m.mover.RemoveDefinitions(ctx, vm)
}

// CheckDelete returns an error if Delete would not remove the VM, as far as that can be told without touching a host. If
// no host has the VM, that is no error.
func (m *Manager) CheckDelete(ctx context.Context, uuid string, last inventory.LastKnown) error {
	vm, err := m.hosts.Find(ctx, uuid, last)
	if err != nil {
		if inventory.IsNotFound(err) {
			return nil
		}

		return err
	}

	return m.placement.CheckRemovable(ctx, vm, disksRemovedWithVM(vm, false))
}

// verifyNotSaved returns an error if a user or another tool saved the VM's memory since vm was read, and so wants it
// back. Memory that was saved before is removed with the VM.
func (m *Manager) verifyNotSaved(ctx context.Context, vm *inventory.VM) error {
	if !vm.Active || vm.ManagedSave {
		return nil
	}

	d, err := vm.On.Conn.Domain(ctx, vm.UUID)

	switch {
	case inventory.IsNotFound(err):
		return nil
	case err != nil:
		return err
	case d.ManagedSave:
		return &inventory.Error{
			VM: vm.Name, Host: vm.Host, Kind: inventory.ErrBusy,
			Detail: "its memory was saved while it was to be deleted; it was not deleted",
			Remedy: "Start it again, or plan and apply again to delete it with what was saved.",
		}
	default:
		return nil
	}
}
