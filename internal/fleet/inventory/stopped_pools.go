package inventory

import (
	"context"
	"slices"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// StoppedPools returns the storage pools of a host that aren't active, as of the view: all VMs that a plan destroys ask
// the same. Callers must not change the result.
func (v *View) StoppedPools(ctx context.Context, h *Host) ([]libvirt.StoragePool, error) {
	return v.stopped.get(ctx, "", func(ctx context.Context) ([]libvirt.StoragePool, error) {
		all, err := h.Conn.StoragePools(ctx)
		if err != nil {
			return nil, err
		}

		return slices.DeleteFunc(all, func(p libvirt.StoragePool) bool { return p.Active }), nil
	})
}
