package fleet

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"sync"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
)

// reserveFiles makes the target keep room for the disks that are copied there,
// until release is called, unless those that are on their way there need it.
func (m *move) reserveFiles(ctx context.Context, machine migration.VM) (release func(), err error) {
	f, name := m.fleet, m.vm.Name

	machine = f.headedFor(ctx, m.vm, machine, m.to)

	load := migration.EstimateTransfer(ctx, machine, m.from.Conn, m.to.Conn, m.tuning.Options)
	if len(load.Files) == 0 {
		return func() {}, nil
	}

	unlock, err := f.reservations.filing.Lock(ctx, m.to.Name)
	if err != nil {
		return nil, err
	}
	defer unlock()

	blockers, err := f.fileBlockers(ctx, m.to, name, load.Files)
	if err != nil {
		return nil, err
	}

	if len(blockers) > 0 {
		return nil, &inventory.Error{VM: name, Host: m.from.Name, Err: &migration.BlockedError{Blockers: blockers}}
	}

	f.reservations.expect(m.to.Name, name, load.Files)

	return sync.OnceFunc(func() { f.reservations.expect(m.to.Name, name, nil) }), nil
}

// expect notes the files that are on their way to a host with a VM; nil ends
// that.
func (r *reservations) expect(host, name string, files map[string]uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()

	if files == nil {
		delete(r.files[host], name)

		return
	}

	if r.files == nil {
		r.files = map[string]map[string]map[string]uint64{}
	}

	if r.files[host] == nil {
		r.files[host] = map[string]map[string]uint64{}
	}

	r.files[host][name] = files
}

// expectsFiles says that other VMs are on their way to the host with files.
func (f *Fleet) expectsFiles(h *inventory.Host, name string) bool {
	f.reservations.mu.Lock()
	defer f.reservations.mu.Unlock()

	others := len(f.reservations.files[h.Name])
	if _, me := f.reservations.files[h.Name][name]; me {
		others--
	}

	return others > 0
}

// fileBlockers are the directories of the host without room for files beside those
// that are on their way there with other VMs than the one of that name.
func (f *Fleet) fileBlockers(
	ctx context.Context, h *inventory.Host, name string, files map[string]uint64,
) ([]migration.Blocker, error) {
	var blockers []migration.Blocker

	needs := byDirectory(files)
	for _, dir := range slices.Sorted(maps.Keys(needs)) {
		left, known, err := f.roomIn(ctx, h, dir, name)
		if err != nil {
			return nil, err
		}

		if known && left < needs[dir] {
			blockers = append(blockers, migration.Blocker{
				Reason: migration.InsufficientStorage, Status: status.False, Attribute: "disks",
				Message: fmt.Sprintf("the disks need at least %s in %s on host %q, where %s are free, not counting disks that "+
					"are being copied there", bytesText(needs[dir]), dir, h.Name, bytesText(left)),
				Remedy: "Free space there, or choose another host.",
			})
		}
	}

	return blockers, nil
}

// roomIn is what a directory of the host has left beside the files that are on
// their way there with other VMs than the one of that name. It isn't known of
// one without a storage pool.
func (f *Fleet) roomIn(ctx context.Context, h *inventory.Host, dir, name string) (left uint64, known bool, err error) {
	left, err = h.Conn.Room(ctx, dir)
	if inventory.IsNotFound(err) {
		return 0, false, nil
	}

	if err != nil {
		return 0, false, err
	}

	f.reservations.mu.Lock()
	others := maps.Clone(f.reservations.files[h.Name])
	f.reservations.mu.Unlock()
	delete(others, name)

	for _, theirs := range others {
		for file, bytes := range theirs {
			if path.Dir(file) != dir {
				continue
			}

			// What has arrived counts in what the storage pool has left.
			v, err := h.Conn.VolumeByPath(ctx, file)
			if err == nil {
				bytes -= min(bytes, v.AllocationBytes)
			} else if !inventory.IsNotFound(err) {
				return 0, false, err
			}

			left -= min(left, bytes)
		}
	}

	return left, true, nil
}

// byDirectory sums up what files take.
func byDirectory(files map[string]uint64) map[string]uint64 {
	sums := map[string]uint64{}
	for file, bytes := range files {
		sums[path.Dir(file)] += bytes
	}

	return sums
}
