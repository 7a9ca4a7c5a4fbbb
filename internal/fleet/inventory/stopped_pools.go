package inventory

import (
	"context"
	"slices"
	"sync"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// seenStopped are the storage pools of a host that weren't active in a view.
type seenStopped struct {
	mu     sync.Mutex
	listed bool
	pools  []libvirt.StoragePool
}

// StoppedPools returns the storage pools of a host that aren't active, as of the view: all VMs that a plan destroys ask
// the same. Callers must not change the result.
func (v *View) StoppedPools(ctx context.Context, h *Host) ([]libvirt.StoragePool, error) {
	v.stopped.mu.Lock()
	defer v.stopped.mu.Unlock()

	if v.stopped.listed {
		return v.stopped.pools, nil
	}

	all, err := h.Conn.StoragePools(ctx)
	if err != nil {
		return nil, err
	}

	v.stopped.listed = true
	v.stopped.pools = slices.DeleteFunc(all, func(p libvirt.StoragePool) bool { return p.Active })

	return v.stopped.pools, nil
}
