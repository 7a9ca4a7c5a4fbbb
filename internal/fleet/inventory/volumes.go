package inventory

import (
	"context"
	"sync"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// seenVolumes are the volumes that a host's storage pools had in a view, by pool. A pool is listed when its volumes are
// first needed.
type seenVolumes struct {
	mu    sync.Mutex
	pools map[string]*poolListing
}

type poolListing struct {
	mu      sync.Mutex
	listed  bool
	changes uint64 // volumeChanges before the pool was listed
	volumes []libvirt.Volume
}

func (s *seenVolumes) of(pool string) *poolListing {
	s.mu.Lock()
	defer s.mu.Unlock()

	if s.pools == nil {
		s.pools = make(map[string]*poolListing)
	}

	if s.pools[pool] == nil {
		s.pools[pool] = &poolListing{}
	}

	return s.pools[pool]
}

// PoolVolumes returns the volumes of a host's storage pool, as of the snapshot: listing a pool costs a call for each of
// its volumes, and every new disk of a plan asks. What this process has changed since is listed again. Callers must not
// change the result. Its errors are those of libvirt.Host.PoolVolumes.
func (inv *Inventory) PoolVolumes(ctx context.Context, h *Host, pool string) ([]libvirt.Volume, error) {
	v, err := inv.ViewOf(ctx, h)
	if err != nil {
		return nil, err
	}

	l := v.volumes.of(pool)

	l.mu.Lock()
	defer l.mu.Unlock()

	changes := inv.volumeChanges()
	if l.listed && l.changes == changes {
		return l.volumes, nil
	}

	volumes, err := h.Conn.PoolVolumes(ctx, pool)
	if err != nil {
		return nil, err
	}

	l.listed, l.changes, l.volumes = true, changes, volumes

	return volumes, nil
}

// volumeChanges counts what this process may have changed in the storage pools of any host: hosts share pools.
func (inv *Inventory) volumeChanges() uint64 {
	var sum uint64
	for _, h := range inv.Configured {
		sum += h.Conn.VolumeChanges()
	}

	return sum
}
