package move

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/placement"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/records"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// MarkSharedOwnDisks turns the disks that were made with the VM in storage pools that hosts share into shared ones:
// they aren't copied.
func MarkSharedOwnDisks(ctx context.Context, vm *inventory.VM, facts *domain.Mobility) {
	here := hostset.NewSet(hostset.Host{Name: vm.On.Name, Conn: vm.On.Conn})
	shared := map[string]bool{}

	for i := range facts.Disks {
		disk := &facts.Disks[i]
		if disk.Own == nil {
			continue
		}

		pool := disk.Own.Pool
		if _, asked := shared[pool]; !asked {
			// One that can't be asked isn't shared: a copy then overwrites nothing.
			found := hostset.Found((&storage.Storage{Hosts: here}).Pool(ctx, here, pool))
			shared[pool] = len(found) > 0 && found[0].Value.Shared
		}

		if shared[pool] {
			disk.Own, disk.Shared = nil, true
		}
	}
}

// ownDiskBlockers are what blocks moving a VM with disks of its own. They go to the same path, where the same pool has
// to be: else they could be neither grown nor removed there.
func (ck *Checks) ownDiskBlockers(ctx context.Context, vm *inventory.VM, to *inventory.Host) []migration.Blocker {
	var blockers []migration.Blocker

	own := vm.Movable()
	for _, key := range slices.Sorted(maps.Keys(own)) {
		o := own[key]
		if why, lacksPool := ownDiskPoolMisfit(ctx, to, o); why != "" {
			b := migration.Blocker{
				Reason: migration.DisksNotLiveMigratable, Status: status.False,
				Attribute: placement.OwnDiskAttribute(key, "pool"),
				Message: fmt.Sprintf("%s was made with the VM (volume %s/%s), and %s", placement.OwnDiskTitle(key),
					o.Pool, o.Volume, why),
				Remedy: fmt.Sprintf("Create and start storage pool %q on host %q, with the same path.", o.Pool, to.Name),
			}
			if lacksPool {
				b.Lacks = status.HostObject{Kind: status.StoragePool, Name: o.Pool}
			}

			blockers = append(blockers, b)
		}
	}

	return blockers
}

// ownDiskPoolMisfit says why a host can't have an own disk where it is, "" if it can or doesn't answer: whoever asks it
// for more says so. lacksPool says that the pool isn't there or isn't active.
func ownDiskPoolMisfit(ctx context.Context, to *inventory.Host, o domain.OwnDisk) (why string, lacksPool bool) {
	pool, err := to.Conn.StoragePool(ctx, o.Pool)

	switch {
	case errors.Is(err, inventory.ErrUnreachable):
		return "", false
	case inventory.IsNotFound(err), errors.Is(err, libvirt.ErrNoPool):
		return fmt.Sprintf("host %q has no storage pool %q", to.Name, o.Pool), true
	case err != nil:
		return fmt.Sprintf("storage pool %q of host %q can't be read: %v", o.Pool, to.Name, err), false
	case !pool.Active:
		return fmt.Sprintf("storage pool %q of host %q is not active", o.Pool, to.Name), true
	}

	if why := placement.UnfitPool(pool); why != "" {
		return why, false
	}

	is, err := storage.ReadPool(pool.XML)
	if err != nil {
		return err.Error(), false
	}

	if at := path.Join(*is.Path, o.Volume); at != o.Path {
		return fmt.Sprintf("storage pool %q of host %q would have it at %s, not at %s", o.Pool, to.Name, at, o.Path), false
	}

	return "", false
}

// WithTarget is the VM with what is known of the target: what earlier moves left there, and which images are brought
// there before.
func (ck *Checks) WithTarget(
	ctx context.Context, vm *inventory.VM, inspected migration.VM, to *inventory.Host,
) migration.VM {
	if a, err := ck.hosts.ReplyOf(ctx, to); err == nil {
		inspected.Unfinished = vm.CopiesOn(a.Info.UUID)

		for _, l := range vm.Metadata.LeftVolumes {
			if l.HostUUID == a.Info.UUID && l.HostUUID != vm.HostUUID {
				inspected.Unfinished = append(inspected.Unfinished, domain.Copy{Path: l.Path})
			}
		}

		inspected.Brings = map[string]uint64{}
		for _, image := range imagesToBring(ctx, vm, inspected.Facts, to) {
			inspected.Brings[image.path] = image.bytes
		}
	}

	return inspected
}

// RemoveLeftVolumes removes volumes of own disks that moves left on other hosts, or on that one only, and takes them
// off the VM's metadata. It returns the VM as it is then. What is on hosts that don't answer or are not configured
// stays, and stays noted; what something else uses by now is that one's. certain says that the caller has copied them
// just now; else it is tried whether the hosts share the file by now.
func (cl *Cleanup) RemoveLeftVolumes(
	ctx context.Context, vm *inventory.VM, only *inventory.Host, certain bool,
) (*inventory.VM, error) {
	var failures []error

	released := map[domain.LeftVolume]bool{}

	for _, left := range vm.Metadata.LeftVolumes {
		h := cl.hosts.Host(vm.Peers[left.HostUUID])
		if h == nil || h == vm.On || h.Config.Fenced || only != nil && h != only {
			continue
		}

		if slices.Contains(vm.StaleHosts, h.Name) {
			continue // The definition that is left there has it still.
		}

		if err := cl.removeLeftVolume(ctx, vm, h, left, certain); err != nil {
			failures = append(failures, &inventory.Error{
				VM: vm.Name, Host: h.Name, Err: err,
				Detail: fmt.Sprintf("volume %s/%s, which a move left on host %q, was not removed", left.Pool, left.Volume, h.Name),
			})

			continue
		}

		released[left] = true
	}

	if len(released) == 0 {
		return vm, errors.Join(failures...)
	}

	m := vm.Metadata
	m.LeftVolumes = slices.DeleteFunc(slices.Clone(m.LeftVolumes), func(l domain.LeftVolume) bool { return released[l] })

	changed, err := records.WriteMetadata(ctx, vm, m)
	if err == nil && changed {
		var now *inventory.VM
		if now, err = cl.hosts.Refresh(ctx, vm); err == nil {
			vm = now
		}
	}

	return vm, errors.Join(append(failures, err)...)
}

// removeLeftVolume removes one of them. That it stays because another VM uses it, or because its pool is gone, is told
// in the log.
func (cl *Cleanup) removeLeftVolume(
	ctx context.Context, vm *inventory.VM, h *inventory.Host, left domain.LeftVolume, certain bool,
) error {
	stays := func(why string) error {
		cl.log.WarnContext(ctx, "a volume that a move left stays", "name", vm.Name, "host", h.Name, "storage_pool", left.Pool,
			"volume", left.Volume, "file", left.Path, "reason", why)

		return nil
	}

	if !certain {
		one, err := migration.IsSameFile(ctx, h.Conn, vm.On.Conn, left.Path)
		if err != nil {
			return err
		}

		if one {
			return stays("the VM uses it where it is now: the hosts share it")
		}
	}

	err := cl.records.Storage().EnsureActive(ctx, h.Name, left.Pool)
	if err == nil {
		cl.log.InfoContext(ctx, "removing a volume that a move left", "name", vm.Name, "host", h.Name,
			"storage_pool", left.Pool, "volume", left.Volume)

		all := cl.hosts.Connections().Present()
		err = cl.records.Storage().Release(ctx, storage.Release{
			Host: h.Name, Ref: storage.Ref{Pool: left.Pool, Name: left.Volume}, Path: left.Path, VM: vm.UUID,
			Detached: true, Moved: true, Hosts: all.Named(h.Name), Others: all.Without(h.Name),
		})
	}

	switch {
	case errors.Is(err, storage.ErrInUse), errors.Is(err, storage.ErrOtherPath), inventory.IsNotFound(err),
		errors.Is(err, libvirt.ErrNoPool):
		return stays(err.Error())
	default:
		return err
	}
}

// RefreshSharedPool has the hosts that share a storage pool see what was made there: where a VM may move is told by
// what their pools show.
func (mv *Mover) RefreshSharedPool(ctx context.Context, h *inventory.Host, pool string) {
	all := mv.hosts.Connections().Present()

	found := hostset.Found(mv.records.Storage().Pool(ctx, all.Named(h.Name), pool))
	if len(found) == 0 || !found[0].Value.Shared {
		return
	}

	with := hostset.Found(mv.records.Storage().Pool(ctx, all, pool))
	names := make([]string, len(with))

	for i, a := range with {
		names[i] = a.Host
	}

	mv.records.Storage().RefreshElsewhere(ctx, all.Named(names...), h.Name, pool)
}
