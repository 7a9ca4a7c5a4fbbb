package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/lease"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// leftovers say what a VM that could not be created may have.
type leftovers struct {
	// unseen says that no guest has seen the VM's own disks.
	unseen bool
	// ran says that an earlier run created the VM, and that its guest may have run since.
	ran bool
	// variables says that the file that the configuration names for the firmware's variables may be older than the VM.
	variables bool
}

// undoCreate removes a VM that could not be created, so that nothing is left behind, and returns the cause. It keeps
// and returns a VM that runs, because that VM is healthy. It also keeps a VM whose guest may have written to its own
// disks, or may have left variables of its firmware, the state of its TPM or saved memory: the next Create completes
// such a VM.
func (m *Manager) undoCreate(
	ctx context.Context, h *inventory.Host, id string, left leftovers, cause error,
) (*inventory.VM, error) {
	ctx, cancel := lease.GraceContext(ctx)
	defer cancel()

	// Another run may have completed the VM while this run was suspended. Then it is that run's VM.
	if err := lease.Confirm(ctx); errors.Is(err, lease.ErrLost) {
		return nil, errors.Join(cause, err)
	}

	vm, err := m.hosts.ReadVM(ctx, h, id)
	if err == nil && vm.Active {
		return vm, cause
	}

	if err == nil && (left.ran || !left.unseen || vm.Ran() || vm.ManagedSave) {
		return nil, kept(vm, "its guest may have run", cause)
	}

	rest := "nothing of it was left on the host"

	if err == nil && len(vm.Metadata.OwnDisks) > 0 {
		stay, err := m.undoDisks(ctx, vm)
		if err != nil {
			h.Forget()

			return nil, errors.Join(cause, leftError(h, id, err))
		}

		if len(stay) > 0 {
			rest = "of it, the host still has " + strings.Join(stay, "; ")
		}
	}

	if err == nil {
		keep := m.keptVariables(ctx, vm)
		if left.variables {
			keep = []libvirt.Kept{libvirt.KeepNVRAM}
		}

		err = h.Conn.UndefineDomain(ctx, id, keep...)
	}

	if err != nil && !inventory.IsNotFound(err) {
		h.Forget()

		return nil, errors.Join(cause, leftError(h, id, err))
	}

	h.Remember(id, nil)

	var e *inventory.Error
	if errors.As(cause, &e) && e.Detail != "" {
		e.Detail += "; " + rest
	}

	return nil, cause
}

// leftError says where the VM that couldn't be created, or a part of it, may still be.
func leftError(h *inventory.Host, id string, err error) error {
	return fmt.Errorf("host %q may still have the unfinished VM (UUID %s), which couldn't be removed: %w", h.Name, id, err)
}
