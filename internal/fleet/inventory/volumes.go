package inventory

import (
	"context"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// poolListing are the volumes that a storage pool had in a view.
type poolListing struct {
	changes uint64 // volumeChanges before the pool was listed
	volumes []libvirt.Volume
}

// PoolVolumes returns the volumes of a host's storage pool, as of the snapshot: listing a pool costs a call for each of
// its volumes, and every new disk of a plan asks. What this process has changed since is listed again. Callers must not
// change the result. Its errors are those of libvirt.Host.PoolVolumes.
func (inv *Inventory) PoolVolumes(ctx context.Context, h *Host, pool string) ([]libvirt.Volume, error) {
	v, err := inv.ViewOf(ctx, h)
	if err != nil {
		return nil, err
	}

	current := func(l poolListing) bool { return l.changes == inv.volumeChanges() }

	l, err := v.volumes.getIf(ctx, pool, current, func(ctx context.Context) (poolListing, error) {
		changes := inv.volumeChanges()
		volumes, err := h.Conn.PoolVolumes(ctx, pool)

		return poolListing{changes: changes, volumes: volumes}, err
	})

	return l.volumes, err
}

// seenVolume is a volume in a view.
type seenVolume struct {
	changes uint64 // volumeChanges before the volume was read
	volume  libvirt.Volume
}

// Volume returns the volume of a host with that id, as of the snapshot: many VMs of a plan have one medium, and each of
// them asks several times. What this process may have changed since is read again, with read, which returns the volume.
func (inv *Inventory) Volume(
	ctx context.Context, h *Host, id string, read func(context.Context) (*libvirt.Volume, error),
) (*libvirt.Volume, error) {
	v, err := inv.ViewOf(ctx, h)
	if err != nil {
		return nil, err
	}

	current := func(s seenVolume) bool { return s.changes == inv.volumeChanges() }

	seen, err := v.volumesByID.getIf(ctx, id, current, func(ctx context.Context) (seenVolume, error) {
		changes := inv.volumeChanges()

		volume, err := read(ctx)
		if err != nil {
			return seenVolume{}, err
		}

		return seenVolume{changes: changes, volume: *volume}, nil
	})
	if err != nil {
		return nil, err
	}

	return &seen.volume, nil
}

// volumeChanges counts what this process may have changed in the storage pools of any host: hosts share pools.
func (inv *Inventory) volumeChanges() uint64 {
	var sum uint64
	for _, h := range inv.Configured {
		sum += h.Conn.VolumeChanges()
	}

	return sum
}
