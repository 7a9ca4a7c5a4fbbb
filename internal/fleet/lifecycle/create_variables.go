package lifecycle

import (
	"context"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/placement"
)

// mayHaveVariables reports whether the host has the file that the configuration of a new VM names for the variables of
// its firmware, or doesn't say whether it has. Such a file is the user's, from a backup or from a VM that was undefined
// without it. The VM starts with it, and if the VM can't be created, the file stays.
func (m *Manager) mayHaveVariables(ctx context.Context, h *inventory.Host, d placement.Desired) bool {
	file := d.DeclaredNVRAM()
	if file == "" {
		return false
	}

	there, known := m.hosts.FilesOn(ctx, h, []string{file})[file]

	return there || !known
}

// startFresh starts a VM with new firmware variables, if the host supports that.
func startFresh(ctx context.Context, h *inventory.Host, vm *inventory.VM) error {
	info, err := h.Conn.Info(ctx)
	if err != nil {
		return err
	}

	// Saved memory requires the firmware with which it was saved.
	if vm.ManagedSave || !placement.ResetsNVRAM(info) {
		return h.Conn.StartDomain(ctx, vm.UUID)
	}

	return h.Conn.StartDomainFresh(ctx, vm.UUID)
}
