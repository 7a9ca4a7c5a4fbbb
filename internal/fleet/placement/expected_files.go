package placement

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"sync"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
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
			blockers = append(blockers, migration.Blocker{
				Reason: migration.InsufficientStorage, Status: status.False, Attribute: "disks",
				Message: fmt.Sprintf("the disks need at least %s in %s on host %q, where %s are free, not counting disks that "+
					"are being copied there", domain.FormatSize(needs[dir]), dir, h.Name, domain.FormatSize(left)),
				Remedy: migration.FreeSpaceRemedy,
			})
		}
	}

	overcommitted, err := cy.growthBlockers(ctx, h, name, load)

	return append(blockers, overcommitted...), err
}

// FreeSpaceIn returns how much space a directory of the host has left after the files that are on their way there with
// other VMs than the one of that name. It is unknown if the directory is not in a storage pool.
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

	return left - min(left, others.Now), true, nil
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

	return sum, nil
}

// ByDirectory returns the sizes of the files, summed up by directory.
func ByDirectory(files map[string]uint64) map[string]uint64 {
	sums := map[string]uint64{}
	for file, bytes := range files {
		sums[path.Dir(file)] += bytes
	}

	return sums
}
