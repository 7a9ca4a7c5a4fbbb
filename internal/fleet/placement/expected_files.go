package placement

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/lease"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// ReserveFiles reserves room on the target for files that are copied there with the VM, until release is called. It
// returns an error if the files that are on their way there need the room.
func (cy *Capacity) ReserveFiles(
	ctx context.Context, vm *inventory.VM, to *inventory.Host, load migration.TransferSize,
) (release func(), err error) {
	unlock, err := cy.reservations.filing.Lock(ctx, to.Name)
	if err != nil {
		return nil, err
	}
	defer unlock()

	// Another run may be creating VMs there. If the host doesn't answer, the check says so.
	_ = cy.hosts.LookAgain(ctx, to)

	blockers, err := cy.FileBlockers(ctx, to, vm.Name, load)
	if err != nil {
		return nil, err
	}

	if len(blockers) > 0 {
		return nil, &inventory.Error{VM: vm.Name, Host: vm.Host, Err: &migration.BlockedError{Blockers: blockers}}
	}

	cy.reservations.expect(to.Name, vm.Name, &load)

	return sync.OnceFunc(func() { cy.reservations.expect(to.Name, vm.Name, nil) }), nil
}

// expect records the files that are on their way to a host with a VM; nil removes the record.
func (r *reservations) expect(host, name string, load *migration.TransferSize) {
	r.mu.Lock()
	defer r.mu.Unlock()

	if load == nil {
		delete(r.files[host], name)

		return
	}

	if r.files == nil {
		r.files = map[string]map[string]migration.TransferSize{}
	}

	if r.files[host] == nil {
		r.files[host] = map[string]migration.TransferSize{}
	}

	r.files[host][name] = *load
}

// ExpectsFiles reports whether other VMs are on their way to the host with files.
func (cy *Capacity) ExpectsFiles(h *inventory.Host, name string) bool {
	return len(cy.expectedFiles(h, name)) > 0
}

// expectedFiles returns the files of the VMs that are on their way to the host, by VM, except for the VM of that name.
func (cy *Capacity) expectedFiles(h *inventory.Host, but string) map[string]migration.TransferSize {
	cy.reservations.mu.Lock()
	defer cy.reservations.mu.Unlock()

	others := maps.Clone(cy.reservations.files[h.Name])
	delete(others, but)

	return others
}

// FileBlockers returns a blocker for each directory of the host without room for the files of a move, or for what they
// may grow to. The files that are on their way there with other VMs than the one of that name count as if they were
// there.
func (cy *Capacity) FileBlockers(
	ctx context.Context, h *inventory.Host, name string, load migration.TransferSize,
) ([]migration.Blocker, error) {
	var blockers []migration.Blocker

	needs := ByDirectory(load.Files)
	for _, dir := range slices.Sorted(maps.Keys(needs)) {
		left, known, err := cy.FreeSpaceIn(ctx, h, dir, name)
		if err != nil {
			return nil, err
		}

		if known && left < needs[dir] {
			pool := ""
			if p, err := h.Conn.StoragePoolAt(ctx, dir); err == nil {
				pool = p.Name
			}

			blockers = append(blockers, migration.Blocker{
				Reason: migration.InsufficientStorage, Status: status.False, Attribute: "disks",
				Message: fmt.Sprintf("the disks need at least %s in %s on host %q, where %s are free, not counting disks that "+
					"are being copied there", domain.FormatSize(needs[dir]), dir, h.Name, domain.FormatSize(left)),
				Remedy: migration.FreeSpaceRemedy(pool, h.Name),
			})
		}
	}

	overcommitted, err := cy.growthBlockers(ctx, h, name, load)

	return append(blockers, overcommitted...), err
}

// FreeSpaceIn returns how much space a directory of the host has left after the files that are on their way there with
// other VMs than the one of that name, and after the disks of VMs that are being created there. It is unknown if the
// directory is not in a storage pool.
func (cy *Capacity) FreeSpaceIn(
	ctx context.Context, h *inventory.Host, dir, name string,
) (left uint64, known bool, err error) {
	left, err = h.Conn.FreeSpace(ctx, dir)
	if inventory.IsNotFound(err) {
		return 0, false, nil
	}

	if err != nil {
		return 0, false, err
	}

	others, err := cy.arrivingDemand(ctx, h, dir, name)
	if err != nil {
		return 0, false, err
	}

	pending, err := cy.pendingIn(ctx, h, dir, name)
	if err != nil {
		return 0, false, err
	}

	return left - min(left, others.Plus(pending).Now), true, nil
}

// pendingIn is pendingDemand for the storage pool of a directory. It asks nothing if no VM is being created on the
// host.
func (cy *Capacity) pendingIn(
	ctx context.Context, h *inventory.Host, dir, name string,
) (storage.Demand, error) {
	a, err := cy.hosts.ReplyOf(ctx, h)
	if err != nil || !cy.createsDisks(a, name) {
		return storage.Demand{}, err
	}

	p, err := h.Conn.StoragePoolAt(ctx, dir)
	if inventory.IsNotFound(err) {
		return storage.Demand{}, nil
	}

	if err != nil {
		return storage.Demand{}, err
	}

	return cy.pendingDemand(ctx, a, name, p.Name), nil
}

// createsDisks reports whether VMs other than the one of that name may be about to get disks on the host.
func (cy *Capacity) createsDisks(a inventory.Reply, name string) bool {
	for _, e := range a.View.Domains {
		if e.Name != name && strings.Contains(e.PersistentXML, creatingMark) {
			return true
		}
	}

	cy.reservations.mu.Lock()
	defer cy.reservations.mu.Unlock()

	for other, r := range cy.reservations.byHost[a.Host.Name] {
		if other != name && len(r.pools) > 0 {
			return true
		}
	}

	return false
}

// arrivingDemand returns what files that are on their way to a directory of the host, with other VMs than the one of
// that name, will need there in addition to what has arrived: that is one of the volumes, and no longer among what the
// storage pool has left.
func (cy *Capacity) arrivingDemand(
	ctx context.Context, h *inventory.Host, dir, name string,
) (sum storage.Demand, err error) {
	for _, load := range cy.expectedFiles(h, name) {
		for file, bytes := range load.Files {
			if path.Dir(file) != dir {
				continue
			}

			v, err := h.Conn.VolumeByPath(ctx, file)

			switch {
			case err == nil:
				sum.Now += bytes - min(bytes, v.AllocationBytes)
			case inventory.IsNotFound(err):
				sum = sum.Plus(storage.Demand{Now: bytes, Growth: load.Growth[file]})
			default:
				return sum, err
			}
		}
	}

	others, err := cy.copiedByOthers(ctx, h, dir, name)

	return sum.Plus(storage.Demand{Now: others}), err
}

// copiedByOthers returns what the files that other runs are copying to a directory of the host still need there: what
// they occupy at their source. A run records its copies with the VM before it makes them, and has the VM's lock until
// all is copied. What other runs began since the VM's host was read is not counted.
func (cy *Capacity) copiedByOthers(
	ctx context.Context, h *inventory.Host, dir, name string,
) (sum uint64, err error) {
	answers, err := cy.hosts.Snapshot(ctx)
	if err != nil {
		return 0, err
	}

	i := slices.IndexFunc(answers, func(a inventory.Reply) bool { return a.Host == h })
	if i < 0 || answers[i].Info == nil {
		return 0, nil
	}

	target, own := answers[i].Info.UUID, cy.expectedFiles(h, "")

	for _, from := range answers {
		if from.Host == h || from.View == nil || from.Err != nil {
			continue
		}

		for _, e := range from.View.WithCopies() {
			if _, mine := own[e.Name]; mine || e.Name == name {
				continue
			}

			sum += cy.stillCopied(ctx, h, from, e, func(c domain.Copy) bool {
				return c.HostUUID == target && c.FromUUID == from.Info.UUID && path.Dir(c.Path) == dir
			})
		}
	}

	return sum, nil
}

// stillCopied returns what those of a VM's copies that are wanted still need on the host, if a run is moving the VM.
// What can't be read counts as nothing: the copy itself reports a lack of space.
func (cy *Capacity) stillCopied(
	ctx context.Context, h *inventory.Host, from inventory.Reply, e *inventory.Entry, wanted func(domain.Copy) bool,
) (sum uint64) {
	if e.Parse().Definition() == nil {
		return 0
	}

	copies := slices.DeleteFunc(slices.Clone(e.OwnMetadata().Copies), func(c domain.Copy) bool { return !wanted(c) })
	if len(copies) == 0 {
		return 0
	}

	if lock, err := lease.Current(ctx, from.Host.Conn, e.UUID); err != nil || lock == nil {
		return 0
	}

	for _, c := range copies {
		source, err := from.Host.Conn.VolumeByPath(ctx, c.Path)
		if err != nil {
			continue
		}

		arrived := uint64(0)
		if there, err := h.Conn.VolumeByPath(ctx, c.Path); err == nil {
			arrived = there.AllocationBytes
		}

		sum += source.AllocationBytes - min(source.AllocationBytes, arrived)
	}

	return sum
}

// ByDirectory returns the sizes of the files, summed up by directory.
func ByDirectory(files map[string]uint64) map[string]uint64 {
	sums := map[string]uint64{}
	for file, bytes := range files {
		sums[path.Dir(file)] += bytes
	}

	return sums
}
