package lifecycle

import (
	"context"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migrate"
)

// DeleteReport says how a VM was removed.
type DeleteReport struct {
	// Host is where it was.
	Host string
	// Outcome says how it came to be off.
	Outcome inventory.Outcome
	// SilentHosts did not answer; a leftover definition there was not removed.
	SilentHosts []string
	// KeptDisks are own disks that should have gone with it, and why they stay.
	KeptDisks []string
}

// Delete shuts the VM down and removes its definition, and leftover
// definitions elsewhere. Its own disks go with it, the others stay. A VM that
// is proven to be gone is no error.
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

	// Before it is stopped: whoever can't be told what would be removed keeps a VM that runs.
	if err := m.checkOwnDisks(ctx, vm, false); err != nil {
		return report, err
	}

	report.Outcome, err = m.stopAs(ctx, vm, stopping{grace: grace, forceIOError: true})
	if err == nil {
		err = m.unlessSaved(ctx, vm)
	}

	if err != nil {
		vm.On.Forget()

		return report, err
	}

	// With the VM goes what is known of unfinished copies.
	if len(vm.Metadata.Copies) > 0 {
		if _, err := m.mover.DiscardCopies(ctx, vm, nil); err != nil {
			m.log.WarnContext(ctx, "an unfinished copy was not removed", "name", vm.Name, "error", err.Error())
		}
	}

	// As long as it is defined, whoever is broken off here is told what is left.
	if report.KeptDisks, err = m.releaseOwnDisks(ctx, vm, false); err != nil {
		return report, err
	}

	if _, err := m.mover.ReleaseLeft(ctx, vm, nil, false); err != nil {
		report.KeptDisks = append(report.KeptDisks, err.Error())
	}

	if err := migrate.Undefine(ctx, vm.On, uuid); err != nil {
		return report, err
	}

	return report, m.mover.RemoveDefinitions(ctx, vm)
}

// unlessSaved is an error if the VM's memory was saved while it was to be
// deleted: whoever did that wants it back. What was saved before goes with the
// VM.
func (m *Manager) unlessSaved(ctx context.Context, vm *inventory.VM) error {
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
