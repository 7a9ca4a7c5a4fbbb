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

// markSharedOwnDisks marks disks that were made with the VM as shared if their storage pools are shared by hosts. Such
// disks aren't copied.
func markSharedOwnDisks(ctx context.Context, vm *inventory.VM, facts *domain.Mobility) {
	here := hostset.NewSet(hostset.Host{Name: vm.On.Name, Conn: vm.On.Conn})
	shared := map[string]bool{}

	for i := range facts.Disks {
		disk := &facts.Disks[i]
		if disk.Own == nil {
			continue
		}

		pool := disk.Own.Pool
		if _, asked := shared[pool]; !asked {
			// A host that doesn't answer counts as not sharing the pool. That is safe: a copy never overwrites a file.
			found := hostset.Found(storage.PoolOn(ctx, here, pool))
			shared[pool] = len(found) > 0 && found[0].Value.Shared
		}

		if shared[pool] {
			disk.Own, disk.Shared = nil, true
		}
	}
}

// ownDiskBlockers returns what blocks moving a VM with disks of its own. The disks keep their paths, which must be in
// the same pool on the target: otherwise they could be neither grown nor removed there.
func (ck *Checks) ownDiskBlockers(ctx context.Context, vm *inventory.VM, to *inventory.Host) []migration.Blocker {
	var blockers []migration.Blocker

	own := vm.Movable()
	for _, key := range slices.Sorted(maps.Keys(own)) {
		o := own[key]
		why, lacksPool := ownDiskPoolMisfit(ctx, to, key, o)
		if why == "" {
			why, lacksPool = placement.OtherCluster(ctx, to, vm, o), true
		}

		if why != "" {
			b := migration.Blocker{
				Reason: migration.DisksNotLiveMigratable, Status: status.False,
				Attribute: placement.OwnDiskAttribute(key, "pool"),
				Message: fmt.Sprintf("%s was made with the VM (volume %s/%s), and %s", placement.OwnDiskTitle(key),
					o.Pool, o.Volume, why),
				Remedy: fmt.Sprintf("Create and start storage pool %q on host %q, with the same source and path, and its "+
					"filesystem mounted.", o.Pool, to.Name),
			}
			if lacksPool {
				b.Lacks = status.HostObject{Kind: status.StoragePool, Name: o.Pool}
			}

			blockers = append(blockers, b)
		}
	}

	return blockers
}

// mountBlockers returns what blocks moving a VM to a host where the filesystem of its other disks isn't mounted: a copy
// would be on another filesystem, and vanish when that is mounted over it.
func mountBlockers(
	ctx context.Context, vm *inventory.VM, disks []domain.MobileDisk, to *inventory.Host,
) []migration.Blocker {
	var blockers []migration.Blocker

	own := map[string]bool{}
	for _, o := range vm.Movable() {
		own[o.Path] = true
	}

	for _, disk := range disks {
		if own[disk.Path] || disk.Path == "" || disk.Block || disk.Network {
			continue
		}

		if err := storage.CheckMountedAt(ctx, to.Files(), path.Dir(disk.Path)); err != nil {
			remedy := "Mount it there, or choose another host."
			if errors.Is(err, storage.ErrMountsUnread) {
				remedy = "Try again once the host can tell, or choose another host."
			}

			blockers = append(blockers, migration.Blocker{
				Reason: migration.DisksNotLiveMigratable, Status: status.False, Attribute: "disks." + disk.Key,
				Message: fmt.Sprintf("disk %q is %s, and on host %q %v", disk.Key, disk.Path, to.Name, err), Remedy: remedy,
			})
		}
	}

	return blockers
}

// plannedPoolBlockers returns what blocks moving a VM with disks of its own to a host on which their storage pool is
// planned with a directory other than that of the disks.
func plannedPoolBlockers(
	vm *inventory.VM, to *inventory.Host, planned status.PlannedObjects,
) []migration.Blocker {
	var blockers []migration.Blocker

	own := vm.Movable()
	for _, key := range slices.Sorted(maps.Keys(own)) {
		o := own[key]
		if directory, strays := planned.Strays(to.Name, o.Pool, o.Path); strays {
			blockers = append(blockers, migration.Blocker{
				Reason: migration.DisksNotLiveMigratable, Status: status.False,
				Attribute: placement.OwnDiskAttribute(key, "pool"),
				Message: fmt.Sprintf("%s was made with the VM (%s), and storage pool %q is planned on host %q in %s, where it "+
					"would have another path", placement.OwnDiskTitle(key), o.Path, o.Pool, to.Name, directory),
				Remedy: fmt.Sprintf("Set target.path = %q in the virtfleet_storage_pool.", path.Dir(o.Path)),
			})
		}
	}

	return blockers
}

// ownDiskPoolMisfit returns why a host can't have an own disk at its path. It returns "" if the host can, or doesn't
// answer: the next question to that host reports this. lacksPool says whether the pool is missing, isn't active, or has
// another path.
func ownDiskPoolMisfit(
	ctx context.Context, to *inventory.Host, key string, o domain.OwnDisk,
) (why string, lacksPool bool) {
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

	if why := placement.UnfitPool(ctx, to, pool, key); why != "" {
		return why, false
	}

	is, err := storage.ReadPool(pool.XML)
	if err != nil {
		return err.Error(), false
	}

	if at := is.VolumePath(o.Volume); at != o.Path {
		return fmt.Sprintf("storage pool %q of host %q would have it at %s, not at %s", o.Pool, to.Name, at, o.Path), true
	}

	return "", false
}

// WithTarget returns the VM with what is known about the target: files that earlier moves left there, and images that
// are copied there first.
func (ck *Checks) WithTarget(
	ctx context.Context, vm *inventory.VM, inspected migration.VM, to *inventory.Host,
) migration.VM {
	if a, err := ck.hosts.ReplyOf(ctx, to); err == nil {
		inspected.Unfinished = vm.CopiesOn(a.Info.UUID)

		for _, l := range vm.Metadata.LeftVolumes {
			if l.HostUUID == a.Info.UUID && !vm.Uses(l) {
				inspected.Unfinished = append(inspected.Unfinished, domain.Copy{Path: l.Path})
			}
		}

		inspected.BaseImages = map[string]uint64{}
		for _, image := range ck.baseImagesToCopy(ctx, vm, inspected.Mobility, to) {
			inspected.BaseImages[image.path] = image.bytes
		}
	}

	return inspected
}

// RemoveLeftVolumes removes what moves and killed runs left on other hosts, volumes of own disks and originals of other
// disks, and removes it from the VM's metadata. If only is not nil, it considers only that host. It returns the VM as
// it is then. Volumes on hosts that don't answer or are not configured stay, and stay recorded. So does a volume that
// may be there although its pool doesn't show it, and one of which it is unknown whether it is in use. A volume that
// something else uses now stays, and its record is removed. All that stay are KeptDisks of the VM that is returned.
// certain says that the caller has just copied the volumes. Otherwise, RemoveLeftVolumes first tests whether the hosts
// share the file by now.
func (cl *Cleanup) RemoveLeftVolumes(
	ctx context.Context, vm *inventory.VM, only *inventory.Host, certain bool,
) (*inventory.VM, error) {
	var (
		failures []error
		kept     []string
		tried    []domain.LeftVolume
	)

	released := map[domain.LeftVolume]bool{}

	for _, left := range vm.Metadata.LeftVolumes {
		h := cl.hosts.Host(vm.Peers[left.HostUUID])
		if h == nil || vm.Uses(left) || h.Config.Fenced || only != nil && h != only {
			continue
		}

		if slices.Contains(vm.StaleHosts, h.Name) {
			continue // The stale definition there still uses it.
		}

		stays, unseen, err := cl.removeLeftVolume(ctx, vm, h, left, certain && vm.HasFile(left.Path))
		if err != nil {
			failures = append(failures, &inventory.Error{
				VM: vm.Name, Host: h.Name, Err: err,
				Detail: fmt.Sprintf("%s, which is left on host %q, was not removed", left.Name(), h.Name),
			})

			continue
		}

		if stays != "" {
			kept = append(kept, leftText(left, h.Name, stays))
		}

		if unseen {
			tried = append(tried, left)
		} else {
			released[left] = true
		}
	}

	if len(released) == 0 {
		vm.NoteKept(tried, kept)

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

	vm.NoteKept(tried, kept)

	return vm, errors.Join(append(failures, err)...)
}

// removeOriginal removes the original of a disk that isn't an own disk. It returns what removeLeftVolume returns.
func (cl *Cleanup) removeOriginal(
	ctx context.Context, vm *inventory.VM, h *inventory.Host, file string,
) (stays string, unseen bool, err error) {
	if !vm.HasFile(file) {
		return "the VM no longer has this disk", false, nil
	}

	cl.log.InfoContext(ctx, "removing a disk that was copied", "name", vm.Name, "host", h.Name, "file", file)

	stays, unseen, err = migration.RemoveOriginal(ctx, h.Conn, vm.On.Conn, file)
	if stays != "" {
		cl.log.WarnContext(ctx, "a disk that was copied was not removed", "name", vm.Name, "host", h.Name, "file", file,
			"reason", stays)
	}

	return stays, unseen, err
}

// removeLeftVolume removes one of them. It returns why a volume stays. unseen says that it may only be out of sight:
// its pool isn't mounted or doesn't exist, or what uses it is unknown. A file that the VM uses where it is, because the
// hosts share it by now, isn't left over. One that they share and the VM has lost stays: other hosts may use it.
func (cl *Cleanup) removeLeftVolume(
	ctx context.Context, vm *inventory.VM, h *inventory.Host, left domain.LeftVolume, certain bool,
) (stays string, unseen bool, err error) {
	if !path.IsAbs(left.Path) && vm.HasFile(left.Path) {
		return "", false, nil // An RBD image is the same on all hosts.
	}

	if !certain && h != vm.On && path.IsAbs(left.Path) {
		one, err := migration.IsSameFile(ctx, h.Conn, vm.On.Conn, left.Path)

		switch {
		case err != nil || one && vm.HasFile(left.Path):
			return "", false, err
		case one:
			return fmt.Sprintf("host %q has the same file, so the storage is shared by now", vm.Host), false, nil
		}
	}

	if left.IsOriginal() {
		return cl.removeOriginal(ctx, vm, h, left.Path)
	}

	err = cl.records.Storage().EnsureActive(ctx, h.Name, left.Pool)
	if err == nil {
		cl.log.InfoContext(ctx, "removing a volume that is left", "name", vm.Name, "host", h.Name,
			"storage_pool", left.Pool, "volume", left.Volume)

		err = cl.releaseLeft(ctx, vm, h, left)
	}

	switch {
	case errors.Is(err, storage.ErrUnseen), errors.Is(err, storage.ErrUsersUnknown):
		unseen = true
	case inventory.IsNotFound(err), errors.Is(err, libvirt.ErrNoPool):
		if FileIsGone(ctx, cl.hosts, h, left.Path) {
			return "", false, nil // Its file is gone, too.
		}

		unseen = true
		err = fmt.Errorf("host %q has no storage pool %q. Define and start it, or delete the file by hand: %w", h.Name,
			left.Pool, err)
	case errors.Is(err, storage.ErrInUse), errors.Is(err, storage.ErrOtherPath):
	default:
		return "", false, err
	}

	cl.log.WarnContext(ctx, "a volume that is left stays", "name", vm.Name, "host", h.Name, "storage_pool", left.Pool,
		"volume", left.Volume, "file", left.Path, "reason", err.Error())

	return err.Error(), unseen, nil
}

// FileIsGone reports whether a host is known not to have a file. It returns false if the file may be on a filesystem
// that isn't mounted, and for an RBD image.
func FileIsGone(ctx context.Context, hosts *inventory.Inventory, h *inventory.Host, file string) bool {
	if !path.IsAbs(file) {
		return false
	}

	there, known := hosts.FilesOn(ctx, h, []string{file})[file]

	return known && !there && storage.CheckMountedAt(ctx, h.Files(), path.Dir(file)) == nil
}

// releaseLeft removes a volume that is left, unless something uses it. All hosts that share its pool must answer.
func (cl *Cleanup) releaseLeft(
	ctx context.Context, vm *inventory.VM, h *inventory.Host, left domain.LeftVolume,
) error {
	users, err := cl.records.Storage().UserHosts(ctx, h.Name, left.Pool)
	if err != nil {
		return err
	}

	return cl.records.Storage().Release(ctx, storage.Release{
		Host: h.Name, Ref: storage.Ref{Pool: left.Pool, Name: left.Volume}, Path: left.Path, VM: vm.UUID,
		Creating: left.Creating, Unbased: left.Creating, Detached: true, Moved: h != vm.On && path.IsAbs(left.Path),
		Hosts: users, Others: cl.hosts.Connections().Present().Without(users.Names()...),
	})
}

// RefreshSharedPool refreshes a storage pool on the hosts that share it, so that they see new volumes: whether a VM may
// move to a host depends on what its pools show.
func (mv *Mover) RefreshSharedPool(ctx context.Context, h *inventory.Host, pool string) {
	all := mv.hosts.Connections().Present()

	found := hostset.Found(storage.PoolOn(ctx, all.Named(h.Name), pool))
	if len(found) == 0 || !found[0].Value.Shared {
		return
	}

	with := hostset.Found(storage.PoolOn(ctx, all, pool))
	names := make([]string, len(with))

	for i, a := range with {
		names[i] = a.Host
	}

	mv.records.Storage().RefreshElsewhere(ctx, all.Named(names...), h.Name, pool)
}
