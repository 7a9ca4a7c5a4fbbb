package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/move"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/placement"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// dropOwnDisk removes a disk that is no longer declared, and is marked to be deleted. It keeps a disk whose file the VM
// still has, under another key or until its next start. If the VM has moved since it lost the disk, the volume is on
// another host: it is recorded as left there, and is removed as such.
func (u *update) dropOwnDisk(ctx context.Context, key string) error {
	o := u.own[key]
	has := func(disks map[string]domain.Disk) bool {
		return slices.ContainsFunc(slices.Collect(maps.Values(disks)), func(d domain.Disk) bool {
			return d.Source.VolumePath() == o.Path
		})
	}

	if has(u.want.Spec.Disks) {
		delete(u.own, key)

		return nil
	}

	if u.vm.HasFile(o.Path) {
		return nil
	}

	// A saved guest may have any disk that the VM had.
	if u.vm.ManagedSave {
		if o.RemovedWithVM() && !placement.IsFirstBoot(key) {
			u.kept = append(u.kept, fmt.Sprintf("%s (%s/%s): the VM's memory is saved, and its guest may use the disk. "+
				"The first change once the VM has run again and is off removes it", placement.OwnDiskTitle(key), o.Pool, o.Volume))
		}

		return nil
	}

	if !o.Kept() && !o.Removing && !o.Creating && !placement.IsFirstBoot(key) {
		u.keep(key)

		return nil
	}

	if o.RemovedWithVM() {
		if stays, err := u.deleteOwnDisk(ctx, key, o); err != nil || stays {
			return err
		}
	}

	delete(u.own, key)

	return nil
}

// deleteOwnDisk deletes the volume of a disk that the VM has lost, here or where the VM was. It starts the disk's pool.
// It reports whether the disk stays recorded, so that the next plan shows it, and its apply tries again.
func (u *update) deleteOwnDisk(ctx context.Context, key string, o domain.OwnDisk) (stays bool, err error) {
	elsewhere, err := u.manager.isElsewhere(ctx, u.vm, o)
	if err != nil {
		return true, err
	}

	if elsewhere {
		if o.HostUUID != "" {
			u.left = append(u.left, u.vm.AsLeft(o))
		}

		return false, nil
	}

	switch err := u.releaseStarted(ctx, key, o.On(u.vm.HostUUID)); {
	case ctx.Err() == nil && cannotRelease(err):
		// It stays recorded, and Delete knows it as well.
		u.kept = append(u.kept, keptDisk(key, o, err)+". The next run tries again")
		u.vm.NoteKept([]domain.LeftVolume{u.vm.AsLeft(o)}, nil)

		return true, nil
	case errors.Is(err, storage.ErrInUse), errors.Is(err, storage.ErrOtherPath):
		u.kept = append(u.kept, keptDisk(key, o, err))
	case err != nil:
		return true, fmt.Errorf("removing %s (%s/%s): %w", placement.OwnDiskTitle(key), o.Pool, o.Volume, err)
	}

	return false, u.forget(ctx, key)
}

// releaseStarted removes the volume of an own disk from its pool, which it starts. If the pool is gone, so may be the
// file.
func (u *update) releaseStarted(ctx context.Context, key string, o domain.OwnDisk) error {
	err := u.manager.records.Storage().EnsureActive(ctx, u.vm.Host, o.Pool)
	if inventory.IsNotFound(err) {
		if move.FileIsGone(ctx, u.manager.hosts, u.vm.On, o.Path) {
			return nil
		}

		return fmt.Errorf("%w %q. Define and start it on host %q, or delete %s by hand", libvirt.ErrNoPool, o.Pool,
			u.vm.Host, o.Path)
	}

	if err != nil && !errors.Is(err, inventory.ErrUnreachable) {
		return fmt.Errorf("%w, and doesn't start: %w", libvirt.ErrPoolInactive, err)
	}

	if err != nil {
		return err
	}

	silent, err := u.manager.records.Storage().SilentUserHosts(ctx, u.vm.Host, o.Pool)
	for _, host := range slices.Sorted(maps.Keys(silent)) {
		return fmt.Errorf("%w: host %q shares the pool: %w", storage.ErrUsersUnknown, host, silent[host])
	}

	if err != nil {
		return err
	}

	return u.manager.releaseOwnDisk(ctx, u.vm.On, u.vm.UUID, key, o, true)
}

// cannotRelease reports whether the cause that a volume wasn't removed may go away by itself or by what a user does on
// the hosts: what may use it is unknown, a host that shares its pool or a pool of the host doesn't answer, or the pool
// isn't there.
func cannotRelease(err error) bool {
	return slices.ContainsFunc([]error{
		storage.ErrUsersUnknown, storage.ErrUnseen, libvirt.ErrPoolInactive, libvirt.ErrNoPool, libvirt.ErrStorageSilent,
	}, func(kind error) bool { return errors.Is(err, kind) })
}

// forget removes the record of a disk whose volume is gone, at once: without the volume, its pool may be empty, and
// whether the volume is gone from an empty pool isn't always known.
func (u *update) forget(ctx context.Context, key string) error {
	metadata := u.vm.Metadata
	metadata.OwnDisks = maps.Clone(metadata.OwnDisks)
	delete(metadata.OwnDisks, key)

	if err := u.record(ctx, metadata); err != nil {
		return err
	}

	u.manager.log.InfoContext(ctx, "record of a disk removed", "name", u.vm.Name, "host", u.vm.Host, "disk", key)

	return nil
}
