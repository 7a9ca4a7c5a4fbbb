package inventory

import (
	"context"
	"slices"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// StoragePools returns the storage pools of a host, as of the view: many VMs of a plan ask the same. Callers must not
// change the result.
func (v *View) StoragePools(ctx context.Context, h *Host) ([]libvirt.StoragePool, error) {
	return v.allPools.get(ctx, "", h.Conn.StoragePools)
}

// StoppedPools returns those that aren't active.
func (v *View) StoppedPools(ctx context.Context, h *Host) ([]libvirt.StoragePool, error) {
	all, err := v.StoragePools(ctx, h)

	return slices.DeleteFunc(slices.Clone(all), func(p libvirt.StoragePool) bool { return p.Active }), err
}
