package lifecycle

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
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/placement"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/records"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// disksRemovedWithVM returns the keys of the own disks that are removed with the VM.
func disksRemovedWithVM(vm *inventory.VM, all bool) []string {
	var keys []string

	for _, key := range slices.Sorted(maps.Keys(vm.Metadata.OwnDisks)) {
		if o := vm.Metadata.OwnDisks[key]; all || o.RemovedWithVM() {
			keys = append(keys, key)
		}
	}

	return keys
}

// checkOwnDisks returns an error if a disk that is removed with the VM is in a storage pool that can't be read, or if a
// host that doesn't answer may use the disk. It is called before anything is removed. It starts these pools.
func (m *Manager) checkOwnDisks(ctx context.Context, vm *inventory.VM, all bool) error {
	for _, key := range disksRemovedWithVM(vm, all) {
		o := vm.Metadata.OwnDisks[key]
		if !vm.OwnsHere(o) {
			continue
		}

		err := m.records.Storage().EnsureActive(ctx, vm.On.Name, o.Pool)
		if err == nil {
			ref := storage.Ref{Pool: o.Pool, Name: o.Volume}
			if _, err = m.records.Storage().ReadVolume(ctx, vm.On.Name, ref); inventory.IsNotFound(err) {
				err = nil
			}
		} else if inventory.IsNotFound(err) {
			err = fmt.Errorf("%w %q", libvirt.ErrNoPool, o.Pool) // the pool isn't found, not the VM
		}

		if err != nil {
			return &inventory.Error{
				VM: vm.Name, Host: vm.On.Name, Err: err,
				Detail: fmt.Sprintf("%s, volume %q (%s) of storage pool %q, is to be removed with the VM, and the pool "+
					"can't be read; nothing was removed", placement.OwnDiskTitle(key), o.Volume, o.Path, o.Pool),
				Remedy: strings.TrimSpace(fmt.Sprintf("Define and start storage pool %q on host %q again. %s", o.Pool,
					vm.On.Name, placement.KeepRemedy(key))),
			}
		}
	}

	return m.placement.CheckRemovable(ctx, vm, disksRemovedWithVM(vm, all))
}

// releaseOwnDisk removes a disk that was created with a VM, unless something else uses it: then the disk stays, and the
// error says what uses it. detached says that the VM remains without the disk, so that the disk also stays if this VM
// uses it.
func (m *Manager) releaseOwnDisk(
	ctx context.Context, h *inventory.Host, id, key string, o domain.OwnDisk, detached bool,
) error {
	r, err := m.releaseOf(ctx, h, id, key, o)
	if err != nil {
		return err
	}

	r.Detached = detached

	if err := m.checkCluster(ctx, h, id, o); err != nil {
		return err
	}

	if err := m.records.Storage().Release(ctx, r); err != nil {
		return err
	}

	if !path.IsAbs(o.Path) { // libvirt can't read the volumes of a pool that lists an RBD image which is gone.
		m.mover.RefreshSharedPool(ctx, h, o.Pool)
	}

	return nil
}

// checkCluster returns storage.ErrOtherPath if the pool of an RBD image is in another cluster now, which may have
// another image of that name.
func (m *Manager) checkCluster(ctx context.Context, h *inventory.Host, id string, o domain.OwnDisk) error {
	if path.IsAbs(o.Path) {
		return nil
	}

	vm, err := m.hosts.ReadVM(ctx, h, id)
	if err != nil && !inventory.IsNotFound(err) {
		return err
	}

	if why := placement.OtherCluster(ctx, h, vm, o); why != "" {
		return fmt.Errorf("%w: %s. Remove that by hand: rbd rm %s", storage.ErrOtherPath, why, o.Path)
	}

	return nil
}

func (m *Manager) releaseOf(
	ctx context.Context, h *inventory.Host, id, key string, o domain.OwnDisk,
) (storage.Release, error) {
	users, err := m.records.Storage().UserHosts(ctx, h.Name, o.Pool)

	return storage.Release{
		Host: h.Name, Ref: storage.Ref{Pool: o.Pool, Name: o.Volume}, Path: o.Path, VM: id,
		SeenIn: o.SeenIn, Creating: o.Creating, Unbased: o.Creating || placement.IsFirstBoot(key),
		Hosts: users, Others: m.hosts.Connections().Present().Without(users.Names()...),
	}, err
}

// isElsewhere reports whether the volume of an own disk is on another host, which the VM has left. What is in a pool
// that hosts share is here, too.
func (m *Manager) isElsewhere(ctx context.Context, vm *inventory.VM, o domain.OwnDisk) (bool, error) {
	users, err := m.records.Storage().UserHosts(ctx, vm.Host, o.Pool)

	return !vm.OwnsHere(o) && len(users) < 2, err
}

// losesElsewhere returns the keys of disks that an update has taken from the VM and couldn't delete any more, or that
// it began to create, and that were made on another host than the VM's.
func losesElsewhere(vm *inventory.VM) (keys []string) {
	own := placement.OwnDisks(vm)

	for _, key := range disksRemovedWithVM(vm, false) {
		if o := own[key]; (o.Removing || o.Creating) && o.HostUUID != "" && !vm.OwnsHere(o) {
			keys = append(keys, key)
		}
	}

	return keys
}

// recordLost records where the disks of losesElsewhere are, as an update would: as left on the other host, or as own
// disks of this host if the hosts share the pool. Then they are removed with the VM. An error keeps no VM from being
// deleted: the disks then stay, and are reported.
func (m *Manager) recordLost(ctx context.Context, vm *inventory.VM) *inventory.VM {
	metadata := vm.Metadata
	metadata.OwnDisks = maps.Clone(metadata.OwnDisks)
	metadata.LeftVolumes = slices.Clone(metadata.LeftVolumes)

	for _, key := range losesElsewhere(vm) {
		o := metadata.OwnDisks[key]

		switch elsewhere, err := m.isElsewhere(ctx, vm, o); {
		case err != nil:
			m.log.WarnContext(ctx, "a disk that the VM has lost is not looked for", "name", vm.Name, "disk", key,
				"error", err.Error())
		case elsewhere:
			metadata.LeftVolumes = append(metadata.LeftVolumes, vm.AsLeft(o))
			delete(metadata.OwnDisks, key)
		default:
			metadata.OwnDisks[key] = o.On(vm.HostUUID)
		}
	}

	wrote, err := records.WriteMetadata(ctx, vm, metadata)
	if err == nil && wrote {
		var now *inventory.VM
		if now, err = m.hosts.Refresh(ctx, vm); err == nil {
			return now
		}
	}

	if err != nil {
		m.log.WarnContext(ctx, "not recorded where disks are that the VM has lost", "name", vm.Name, "error", err.Error())
	}

	return vm
}

// checkUsersKnown returns an error if it is unknown whether something else uses one of a VM's own disks. It is called
// before the VM is shut down or changed: the disk couldn't be removed then.
func (m *Manager) checkUsersKnown(ctx context.Context, vm *inventory.VM, keys []string) error {
	var removed []storage.Release

	for _, key := range keys {
		o := vm.Metadata.OwnDisks[key]
		if !vm.OwnsHere(o) {
			continue
		}

		r, err := m.releaseOf(ctx, vm.On, vm.UUID, key, o)
		if err != nil {
			return err
		}

		removed = append(removed, r)
	}

	if err := m.records.Storage().CheckRelease(ctx, removed...); err != nil {
		return &inventory.Error{
			VM: vm.Name, Host: vm.On.Name, Err: err,
			Detail: "a disk of the VM is to be removed; nothing was changed",
			Remedy: "To keep the disk instead, first set its on_destroy = \"keep\", as a change of its own.",
		}
	}

	return nil
}

// unclearUsers returns what checkUsersKnown is expected to find on the VM's host, for a plan. It asks a host once per
// reading, and only if an own disk is removed. It leaves out the storage pools of these disks, which Delete starts.
func (m *Manager) unclearUsers(ctx context.Context, vm *inventory.VM, keys []string) []string {
	started := map[string]bool{}

	for _, key := range keys {
		if o := vm.Metadata.OwnDisks[key]; vm.OwnsHere(o) && !o.Creating && !placement.IsFirstBoot(key) {
			started[o.Pool] = true
		}
	}

	if len(started) == 0 {
		return nil
	}

	v, err := m.hosts.ViewOf(ctx, vm.On)
	if err != nil {
		return nil
	}

	stopped, err := v.StoppedPools(ctx, vm.On)
	if err != nil {
		m.log.DebugContext(ctx, "storage pools were not looked at", "host", vm.Host, "error", err)

		return nil
	}

	stopped = slices.DeleteFunc(slices.Clone(stopped), func(p libvirt.StoragePool) bool { return started[p.Name] })
	if len(stopped) == 0 {
		return nil
	}

	var domains []libvirt.Domain
	for _, id := range slices.Sorted(maps.Keys(v.Domains)) {
		domains = append(domains, v.Domains[id].Domain)
	}

	return storage.UnclearBases(vm.Host, domains, stopped)
}

// releaseOwnDisks removes the own disks of a VM that is deleted. It returns the disks that stay because something else
// uses them.
func (m *Manager) releaseOwnDisks(ctx context.Context, vm *inventory.VM, all bool) (stay []string, err error) {
	if err := m.checkOwnDisks(ctx, vm, all); err != nil {
		return nil, err
	}

	for _, key := range mediaLast(disksRemovedWithVM(vm, all)) {
		o := vm.Metadata.OwnDisks[key]
		if !vm.OwnsHere(o) {
			stay = append(stay, fmt.Sprintf("%s (%s/%s): it was made on another host, and the VM doesn't use %s here",
				placement.OwnDiskTitle(key), o.Pool, o.Volume, o.Path))

			continue
		}

		switch err := m.releaseOwnDisk(ctx, vm.On, vm.UUID, key, o.On(vm.HostUUID), false); {
		case errors.Is(err, storage.ErrInUse), errors.Is(err, storage.ErrOtherPath):
			stay = append(stay, keptDisk(key, o, err))
		case err != nil:
			return stay, fmt.Errorf("removing %s (%s/%s): %w", placement.OwnDiskTitle(key), o.Pool, o.Volume, err)
		}
	}

	return stay, nil
}

// mediaLast returns the keys with the first-boot volumes at the end: until the first disk is deleted, an interrupted
// deletion leaves the VM as it was.
func mediaLast(keys []string) []string {
	last := func(key string) int {
		if placement.IsFirstBoot(key) {
			return 1
		}

		return 0
	}
	slices.SortStableFunc(keys, func(a, b string) int { return last(a) - last(b) })

	return keys
}

// keptDisk says which disk wasn't removed, and why.
func keptDisk(key string, o domain.OwnDisk, why error) string {
	return fmt.Sprintf("%s (%s/%s): %v", placement.OwnDiskTitle(key), o.Pool, o.Volume, why)
}

// unseenDisks reports whether no guest has seen the own disks of a new VM, because none of them is completely created
// and no user has tried to start the VM.
func (m *Manager) unseenDisks(ctx context.Context, h *inventory.Host, id string) (bool, error) {
	vm, err := m.hosts.ReadVM(ctx, h, id)
	if err != nil {
		return false, err
	}

	for _, o := range vm.Metadata.OwnDisks {
		if !o.Creating {
			return false, nil
		}
	}

	return !vm.StartTried(), nil
}

// undoDisks removes the disks of a new VM that no guest has seen. It first marks them as being created: if this run is
// interrupted, the next Create creates them again. It returns the disks that stay because something else uses them now.
func (m *Manager) undoDisks(ctx context.Context, vm *inventory.VM) (stay []string, err error) {
	metadata := vm.Metadata
	metadata.OwnDisks = maps.Clone(metadata.OwnDisks)

	for key, o := range metadata.OwnDisks {
		o.Creating = true
		metadata.OwnDisks[key] = o
	}

	if _, err := records.WriteMetadata(ctx, vm, metadata); err != nil {
		return nil, err
	}

	return m.releaseOwnDisks(ctx, vm, true)
}

// kept adds to the cause that the VM, which could not be completed, is kept with its disks, and why.
func kept(vm *inventory.VM, why string, cause error) error {
	text := "its definition and its disks are kept, because " + why
	if !errors.Is(cause, errSeenDisk) { // Then it can't be completed.
		text += "; if it is created again as it was declared, that completes it; before you declare it otherwise, run " +
			vm.UndefineCommand() + strings.TrimSuffix(". "+vm.VolumesLeft(), ". ")
	}

	if e, ok := errors.AsType[*inventory.Error](cause); ok && e.Detail != "" {
		e.Detail += "; " + text

		return cause
	}

	return &inventory.Error{VM: vm.Name, Host: vm.On.Name, Err: cause, Detail: text}
}
