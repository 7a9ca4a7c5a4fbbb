package placement

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// What the volumes of a storage pool may grow to is limited by the host's storage_overprovisioning_factor. Disks that
// aren't there yet count too: of VMs that are being created, and of VMs on their way to the host.

// demandOf returns what a new disk needs of its pool. image is nil for an empty disk.
func demandOf(o domain.OwnDisk, image *libvirt.Volume) storage.Demand {
	d := storage.Demand{Growth: o.Bytes}

	if image != nil {
		d.Growth = max(d.Growth, image.CapacityBytes)
	}

	switch {
	case storage.Thick(o.Preallocation):
		d.Now = d.Growth
	case image != nil && !o.Based():
		d.Now = image.AllocationBytes
	}

	return d
}

// readDemand is demandOf with the host's copy of the image. The demand of a disk whose image can't be read is what was
// declared.
func readDemand(ctx context.Context, h *inventory.Host, o domain.OwnDisk) storage.Demand {
	ref := storage.ParseRef(o.Image)
	if ref == nil {
		return demandOf(o, nil)
	}

	image, err := h.Conn.PoolVolume(ctx, ref.Pool, ref.Name)
	if err != nil {
		image = nil
	}

	return demandOf(o, image)
}

// countsRoom reports whether disks that don't exist yet matter on the host: if what volumes may grow to is limited
// there, or if the VM has a disk that occupies space at once.
func (d Desired) countsRoom(h *inventory.Host) bool {
	return len(d.OwnDisks) > 0 && (h.Config.StorageOverprovisioningFactor > 0 ||
		slices.ContainsFunc(slices.Collect(maps.Values(d.OwnDisks)), occupiesAtOnce))
}

// occupiesAtOnce reports whether a new disk occupies space as soon as it is created.
func occupiesAtOnce(o domain.OwnDisk) bool {
	return storage.Thick(o.Preallocation) || o.Image != "" && !o.Based()
}

// freshenPools has the hosts look how much room the pools of disks have that occupy space at once, before one of the
// hosts is chosen: another program may have filled a pool since. If the VM's host is given, the creation of the disk
// does that.
func (p *Scheduler) freshenPools(ctx context.Context, d Desired) {
	if d.Metadata.Host != "" || len(p.hosts.HostNames()) < 2 {
		return
	}

	pools := map[string]bool{}

	for _, o := range d.OwnDisks {
		if occupiesAtOnce(o) {
			pools[o.Pool] = true
		}
	}

	p.records.Storage().FreshenAll(ctx, slices.Collect(maps.Keys(pools))...)
}

// lockPools keeps this run from reserving room in the host's storage pools for other VMs until unlock is called, if the
// VM needs such room.
func (cy *Capacity) lockPools(ctx context.Context, h *inventory.Host, d Desired) (unlock func(), err error) {
	if !d.countsRoom(h) {
		return func() {}, nil
	}

	return cy.reservations.filing.Lock(ctx, h.Name)
}

// poolDemands returns what the VM's new disks need on the host, by storage pool.
func (d Desired) poolDemands(ctx context.Context, h *inventory.Host) map[string]storage.Demand {
	if !d.countsRoom(h) {
		return nil
	}

	needs := map[string]storage.Demand{}
	for _, o := range d.OwnDisks {
		needs[o.Pool] = needs[o.Pool].Plus(readDemand(ctx, h, o))
	}

	return needs
}

// creatingMark is in every definition of a VM some of whose disks aren't made yet.
const creatingMark = "creating"

// pendingDemand returns what disks that don't exist yet will need of a storage pool: the disks of VMs other than the
// one of that name, which this run has placed on the host or which are being created there.
func (cy *Capacity) pendingDemand(ctx context.Context, a inventory.Reply, name, pool string) storage.Demand {
	var sum storage.Demand

	placed := map[string]bool{name: true}

	cy.reservations.mu.Lock()

	for other, r := range cy.reservations.byHost[a.Host.Name] {
		if other != name {
			sum = sum.Plus(r.pools[pool])
			placed[other] = r.pools != nil
		}
	}

	cy.reservations.mu.Unlock()

	if a.View == nil {
		return sum
	}

	for _, e := range a.View.Domains {
		if placed[e.Name] || !strings.Contains(e.PersistentXML, creatingMark) {
			continue
		}

		for _, o := range e.OwnMetadata().OwnDisks {
			if !o.Creating || o.Pool != pool {
				continue
			}

			switch v, err := a.Host.Conn.PoolVolume(ctx, o.Pool, o.Volume); {
			case inventory.IsNotFound(err):
				sum = sum.Plus(readDemand(ctx, a.Host, o))
			case err == nil: // It is being written, and what it may grow to is the volume's own.
				now := readDemand(ctx, a.Host, o).Now
				sum.Now += now - min(now, v.AllocationBytes)
			}
		}
	}

	return sum
}

// listing lists the volumes of the host's pools, as of the snapshot.
func (cy *Capacity) listing(h *inventory.Host) storage.Listing {
	return func(ctx context.Context, pool string) ([]libvirt.Volume, error) {
		return cy.hosts.PoolVolumes(ctx, h, pool)
	}
}

// lacksRoom returns why the host's storage pool has no room for new disks of the VM, or "" if it has. The pool's
// volumes whose names are removed will be gone.
func (cy *Capacity) lacksRoom(
	ctx context.Context, a inventory.Reply, name string, pool *libvirt.StoragePool, need storage.Demand,
	removed ...string,
) string {
	r, err := storage.RoomOf(ctx, cy.listing(a.Host), pool, a.Host.Config.StorageOverprovisioningFactor, removed...)

	switch {
	case errors.Is(err, libvirt.ErrPoolInactive), errors.Is(err, libvirt.ErrNoPool):
		return ""
	case err != nil:
		return fmt.Sprintf("can't be read: %v", err)
	case r.Available == 0:
		return "is full"
	case need == storage.Demand{}:
		return ""
	}

	others := cy.pendingDemand(ctx, a, name, pool.Name)

	if is, err := storage.ReadPool(pool.XML); err == nil && is.Path != nil {
		arriving, err := cy.arrivingDemand(ctx, a.Host, path.Clean(*is.Path), name)
		if err != nil {
			return fmt.Sprintf("can't be read: %v", err)
		}

		others = others.Plus(arriving)
	}

	return r.Lacks(need, others, domain.FormatSize)
}

// GrowthLeftIn returns how much the volumes in a directory of the host may still be given, after the files that are on
// their way there with other VMs than the one of that name. It isn't limited if the directory is not in a storage pool,
// or if the host has no storage_overprovisioning_factor.
func (cy *Capacity) GrowthLeftIn(
	ctx context.Context, h *inventory.Host, dir, name string,
) (left uint64, limited bool, err error) {
	r, others, _, err := cy.growthRoom(ctx, h, dir, name)
	if err != nil || r.Factor == 0 {
		return 0, false, err
	}

	return r.Left() - min(r.Left(), others.Growth), true, nil
}

// growthRoom returns the room of the storage pool of a directory, and what others will need there that isn't there yet.
func (cy *Capacity) growthRoom(
	ctx context.Context, h *inventory.Host, dir, name string,
) (r storage.Room, others storage.Demand, pool string, err error) {
	factor := h.Config.StorageOverprovisioningFactor
	if factor == 0 {
		return r, others, "", nil
	}

	p, err := h.Conn.StoragePoolAt(ctx, dir)
	if inventory.IsNotFound(err) {
		return r, others, "", nil
	}

	if err != nil {
		return r, others, "", err
	}

	if r, err = storage.RoomOf(ctx, cy.listing(h), p, factor); err != nil {
		return r, others, p.Name, err
	}

	a, err := cy.hosts.ReplyOf(ctx, h)
	if err != nil {
		return r, others, p.Name, err
	}

	arriving, err := cy.arrivingDemand(ctx, h, dir, name)
	others.Growth = cy.pendingDemand(ctx, a, name, p.Name).Plus(arriving).Growth

	return r, others, p.Name, err
}

// growthBlockers returns a blocker for each storage pool whose volumes could grow to too much with the files of a move.
func (cy *Capacity) growthBlockers(
	ctx context.Context, h *inventory.Host, name string, load migration.TransferSize,
) ([]migration.Blocker, error) {
	if h.Config.StorageOverprovisioningFactor == 0 {
		return nil, nil
	}

	var blockers []migration.Blocker

	needs := ByDirectory(load.Growth)
	for _, dir := range slices.Sorted(maps.Keys(needs)) {
		r, others, pool, err := cy.growthRoom(ctx, h, dir, name)
		if err == nil && pool != "" {
			// VerifyGrowth takes the lock when the files are made. That it can't must not be found out only then.
			err = cy.records.Storage().CheckRoomLock(ctx, h.Name, pool)
		}

		if err != nil {
			return nil, err
		}

		why := r.Lacks(storage.Demand{Growth: needs[dir]}, others, domain.FormatSize)
		if r.Factor == 0 || why == "" {
			continue
		}

		blockers = append(blockers, overcommitted(h, pool, why))
	}

	return blockers, nil
}

// VerifyGrowth is called when a move has made files on the host. It returns an error if the storage pools of the files
// could now grow to more than the host allows. The check before the move can't see what other runs are about to make:
// of two runs that both found room, the one that looks later sees the files of both. While it looks, no other run
// places a VM on the host or makes a volume in the pool.
func (cy *Capacity) VerifyGrowth(ctx context.Context, vm *inventory.VM, h *inventory.Host, files []string) error {
	if h.Config.StorageOverprovisioningFactor == 0 || len(files) == 0 {
		return nil
	}

	ctx, unlock, err := cy.lockPlacing(ctx, h)
	if err != nil {
		return err
	}
	defer unlock()

	dirs := map[string]uint64{}
	for _, file := range files {
		dirs[path.Dir(file)] = 0
	}

	var blockers []migration.Blocker

	for _, dir := range slices.Sorted(maps.Keys(dirs)) {
		pool, err := h.Conn.StoragePoolAt(ctx, dir)
		if inventory.IsNotFound(err) {
			continue
		}

		if err != nil {
			return err
		}

		held, release, err := cy.records.Storage().LockRoom(ctx, h.Name, pool.Name, "moving a disk into")
		if err != nil {
			return err
		}

		r, others, _, err := cy.growthRoom(held, h, dir, vm.Name)

		release()

		if err != nil {
			return err
		}

		if why := r.Exceeded(others, domain.FormatSize); why != "" {
			blockers = append(blockers, overcommitted(h, pool.Name, why))
		}
	}

	if len(blockers) > 0 {
		return &inventory.Error{VM: vm.Name, Host: vm.Host, Err: &migration.BlockedError{Blockers: blockers}}
	}

	return nil
}

// overcommitted returns the blocker of a move for which a storage pool of the host has no room.
func overcommitted(h *inventory.Host, pool, why string) migration.Blocker {
	return migration.Blocker{
		Reason: migration.InsufficientStorage, Status: status.False, Attribute: "disks",
		Message: fmt.Sprintf("storage pool %q of host %q %s", pool, h.Name, why),
		Remedy: "Choose another host, remove volumes there, or raise that host's " +
			"storage_overprovisioning_factor.",
	}
}
