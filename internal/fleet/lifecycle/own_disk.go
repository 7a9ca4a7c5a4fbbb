package lifecycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/placement"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/records"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// diskCreator creates the own disks of one VM on its host.
type diskCreator struct {
	*Manager
	host     *inventory.Host
	hostUUID string
	// id is the VM's UUID.
	id string
}

// creatorOf returns the diskCreator of a VM that is defined.
func (m *Manager) creatorOf(vm *inventory.VM) *diskCreator {
	return &diskCreator{Manager: m, host: vm.On, hostUUID: vm.HostUUID, id: vm.UUID}
}

// emptyDisks returns the keys of the disks that are created without data, if others are created from an image, which
// the VM is to boot from.
func emptyDisks(own map[string]domain.OwnDisk) (empty []string) {
	images := false

	for _, key := range slices.Sorted(maps.Keys(own)) {
		switch {
		case !own[key].Creating || placement.IsFirstBoot(key):
		case own[key].Image != "":
			images = true
		default:
			empty = append(empty, key)
		}
	}

	if !images {
		return nil
	}

	return empty
}

// assignVolumes decides which volumes the declared own disks use, and writes them into the specification of d. It
// returns the records of all own disks. have are the records of disks that were created before. The record of a new
// disk is marked as being created and written before its volume is created, so that no volume is without a record.
// defined are the disks in the VM's definition.
func (c *diskCreator) assignVolumes(
	ctx context.Context, d *placement.Desired, have map[string]domain.OwnDisk, defined map[string]domain.Disk,
) (map[string]domain.OwnDisk, error) {
	records := d.OwnDisksUnder(have, defined)
	have = maps.Clone(records)
	d.Spec.Disks = maps.Clone(d.Spec.Disks)

	for _, key := range slices.Sorted(maps.Keys(d.OwnDisks)) {
		is, recorded := have[key]
		at, handed := d.Handed[key]
		o := d.OwnDisk(key, is)

		var err error

		switch {
		case placement.IsFirstBoot(key):
			o, err = c.assignFirstBoot(ctx, d.Spec, key, is, o)
		case recorded && !is.Creating:
			o, err = c.keepDisk(d.Spec.Name, key, is, o)
			if err == nil && is.Removing && !placement.DefinesOwnDisk(defined, key, is) {
				is = is.On(c.hostUUID) // where it is, too, if hosts share its pool
				o, err = c.assignRemoved(ctx, d, key, o.On(c.hostUUID), is.SeenIn)
				if o.Creating {
					is = domain.OwnDisk{} // It is gone.
				}
			}
		case handed:
			format := placement.UsedFormat(&domain.Spec{Disks: defined}, domain.SourceAt(at).VolumePath())
			o, err = placement.Adopted(ctx, c.host, c.hostUUID, at, format, o)
		default:
			o, err = c.assignNew(ctx, d.Spec, key, is, o)
		}

		if err != nil {
			return nil, err
		}

		records = withRecord(records, key, o)
		retire(records, key, is)

		switch {
		case placement.IsFirstBoot(key):
			placeFirstBoot(&d.Spec, key, o)
		case o.Creating, recorded && !is.Creating && !hasDisk(defined, key, d.Spec.Disks[key].Source):
			// Or an interrupted update created it.
			if d.Spec.Disks[key], err = c.madeFrom(ctx, d.Spec.Disks[key], o); err != nil {
				return nil, c.poolFailed(d.Spec, key, o, err)
			}
		case d.Spec.Disks[key].Source.File == domain.UnknownFile:
			// An update that failed has left the disk in the definition alone.
			disk := d.Spec.Disks[key]
			disk.Source, disk.Format = defined[key].Source, cmp.Or(disk.Format, defined[key].Format)
			d.Spec.Disks[key] = disk
		}
	}

	return records, nil
}

// hasDisk reports whether a VM has a disk, under its key or under the one that it had before it was renamed. A renamed
// disk isn't always its own volume: after an external snapshot, it is an overlay of that.
func hasDisk(defined map[string]domain.Disk, key string, source domain.DiskSource) bool {
	_, there := defined[key]

	return there || slices.ContainsFunc(slices.Collect(maps.Values(defined)), func(d domain.Disk) bool {
		return domain.SameDisk(d.Source, source, true)
	})
}

// keepDisk returns the record of a disk that exists, with what may change of it.
func (c *diskCreator) keepDisk(vm, key string, is, want domain.OwnDisk) (domain.OwnDisk, error) {
	if is.Pool != want.Pool || is.Image != want.Image {
		return is, ownDiskChanged(vm, c.host.Name, key, is, want)
	}

	is.OnDestroy, is.Clone, is.Preallocation = want.OnDestroy, want.Clone, want.Preallocation
	is.Removing, is.SeenIn = false, "" // it is declared again

	return is, nil
}

// assignRemoved returns the record of a disk that is declared again after a run was to delete it: of the disk as it is,
// or of a new one if that run was killed when it had deleted the volume. The disk was made on this host, or is in a
// pool that hosts share: CheckDeclaredAgain has refused the others.
func (c *diskCreator) assignRemoved(
	ctx context.Context, d *placement.Desired, key string, is domain.OwnDisk, seenIn string,
) (domain.OwnDisk, error) {
	s := c.records.Storage()
	if err := s.EnsureActive(ctx, c.host.Name, is.Pool); err != nil {
		return is, err
	}

	gone, err := s.IsGone(ctx, c.host.Name, storage.Ref{Pool: is.Pool, Name: is.Volume}, is.Path, seenIn)
	if err != nil || !gone {
		return is, err
	}

	return c.assignNew(ctx, d.Spec, key, domain.OwnDisk{}, d.OwnDisks[key])
}

// assignNew returns the record of a disk that is to be created. It has the volume of is, if an interrupted run began to
// create that.
func (c *diskCreator) assignNew(
	ctx context.Context, vm domain.Spec, key string, is, want domain.OwnDisk,
) (domain.OwnDisk, error) {
	if is.Creating && is.Pool == want.Pool && is.HostUUID == c.hostUUID {
		want.Volume, want.Path = is.Volume, is.Path
	} else if err := c.nameOwnDisk(ctx, vm, key, &want); err != nil {
		return want, err
	}

	want.Creating, want.HostUUID = true, c.hostUUID

	return want, nil
}

// retire keeps the record of a volume that another one replaces under another key, so that the volume is removed once
// the VM no longer has it. A volume that an interrupted run began to create may be created again under its name. The
// path tells volumes apart, and not the pool: two pools on one directory have the same files. Two pools may also have
// volumes of one name, of which each keeps its record.
func retire(records map[string]domain.OwnDisk, key string, is domain.OwnDisk) {
	same := func(o domain.OwnDisk) bool { return o.Path == is.Path && o.HostUUID == is.HostUUID }
	if is.Path == "" || same(records[key]) {
		return
	}

	under := key + "." + is.Volume
	for n := 2; records[under].Path != "" && !same(records[under]); n++ {
		under = fmt.Sprintf("%s.%s.%d", key, is.Volume, n)
	}

	records[under] = is
}

func withRecord(records map[string]domain.OwnDisk, key string, o domain.OwnDisk) map[string]domain.OwnDisk {
	if records == nil {
		records = map[string]domain.OwnDisk{}
	}

	records[key] = o

	return records
}

// madeFrom returns the disk with the volume that is created for it as its source.
func (c *diskCreator) madeFrom(ctx context.Context, disk domain.Disk, o domain.OwnDisk) (_ domain.Disk, err error) {
	disk.Source, err = placement.OwnDiskSource(ctx, c.host, o)

	if disk.Source.Network != nil {
		disk.Format = cmp.Or(disk.Format, "raw")
	}

	disk.Format = cmp.Or(disk.Format, "qcow2")

	return disk, err
}

// beingMade returns the keys of the disks that are marked as being created.
func beingMade(records map[string]domain.OwnDisk) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(records)), func(key string) bool { return !records[key].Creating })
}

// makeOwnDisks creates the disks of these keys, which are marked as being created. If the volume of such a disk exists,
// an interrupted run left it, and it is created again unless a guest has seen it. vm is the VM's name, for errors.
func (c *diskCreator) makeOwnDisks(
	ctx context.Context, vm string, records map[string]domain.OwnDisk, keys []string, disks map[string]domain.Disk,
	with firstBoot,
) error {
	for _, key := range keys {
		o := records[key]
		if placement.IsFirstBoot(key) && !with.declares(key) {
			continue // It is to be removed, not created.
		}

		d := storage.Disk{
			Pool: o.Pool, Name: o.Volume, Format: disks[key].Format, Bytes: o.Bytes,
			Secret: disks[key].Values[domain.EncryptionSecret], Preallocation: o.Preallocation,
		}

		if placement.IsFirstBoot(key) {
			var err error
			if d, err = with.volume(key, o, c.id); err != nil {
				return &inventory.Error{
					VM: vm, Host: c.host.Name, Kind: inventory.ErrInvalid, Err: err,
					Detail: "creating " + placement.OwnDiskTitle(key), Attribute: placement.OwnDiskAttribute(key, "pool"),
				}
			}
		}

		if err := c.makeOwnDisk(ctx, key, o, d); err != nil {
			return &inventory.Error{
				VM: vm, Host: c.host.Name, Err: err,
				Detail: fmt.Sprintf("creating %s in storage pool %q", placement.OwnDiskTitle(key), o.Pool),
				Remedy: c.remedy(ctx, o, d, err), Attribute: placement.OwnDiskAttribute(key, "pool"),
			}
		}

		c.mover.RefreshSharedPool(ctx, c.host, o.Pool)

		o.Creating = false
		records[key] = o
	}

	return nil
}

// remedy returns what a user can do about a disk that could not be created, "" if that isn't known.
func (c *diskCreator) remedy(ctx context.Context, o domain.OwnDisk, d storage.Disk, err error) string {
	switch cause, ok := errors.AsType[*inventory.Error](err); {
	case d.Secret != "" && c.lacksSecret(ctx, d.Secret):
		return fmt.Sprintf("Host %q has no secret %s. Add the host to the hosts of the virtfleet_secret.", c.host.Name,
			d.Secret)
	case o.Image != "" && inventory.IsNotFound(err):
		return fmt.Sprintf("Host %q has no copy of image %q. Add the host to the hosts of the virtfleet_image.", c.host.Name,
			o.Image)
	case ok:
		return cause.Remedy
	default:
		return ""
	}
}

// lacksSecret reports whether the host is known to have no such secret.
func (c *diskCreator) lacksSecret(ctx context.Context, uuid string) bool {
	_, err := c.host.Conn.UserSecret(ctx, uuid)

	return inventory.IsNotFound(err)
}

func (c *diskCreator) makeOwnDisk(ctx context.Context, key string, o domain.OwnDisk, d storage.Disk) error {
	s := c.records.Storage()
	if err := s.EnsureActive(ctx, c.host.Name, o.Pool); err != nil {
		return err
	}

	if image := storage.ParseRef(o.Image); o.Based() {
		d.Overlay = image
	} else {
		d.Clone = image
		// What isn't an image may be a disk of another VM.
		d.CloneWritten, d.VM = image != nil && !image.NamedByContent(), c.id
	}

	c.log.InfoContext(ctx, "creating a disk", "host", c.host.Name, "storage_pool", o.Pool, "volume", o.Volume)

	made, err := s.CreateVolume(ctx, c.host.Name, d)
	if errors.Is(err, inventory.ErrExists) {
		if err := c.verifyUnseen(ctx, key, o); err != nil {
			return err
		}

		err = c.releaseOwnDisk(ctx, c.host, c.id, key, o, false)
		if errors.Is(err, context.DeadlineExceeded) { // libvirt still copies for the run before.
			err = fmt.Errorf("%w: %w", storage.ErrIncompleteInTime, err)
		}

		if err != nil {
			return err
		}

		made, err = s.CreateVolume(ctx, c.host.Name, d)
	}

	if err == nil && made.Path != o.Path {
		err = errors.Join(fmt.Errorf("%w: its path is %q, not %q", libvirt.ErrInternal, made.Path, o.Path),
			c.host.Conn.DeleteVolume(ctx, o.Pool, o.Volume))
	}

	return err
}

// verifyUnseen returns an error if a guest may have written to a disk that is marked as being created. A run that is
// killed before it removes the mark leaves a VM that a user can start by hand.
func (c *diskCreator) verifyUnseen(ctx context.Context, key string, o domain.OwnDisk) error {
	vm, err := c.hosts.ReadVM(ctx, c.host, c.id)
	if err != nil || placement.IsFirstBoot(key) || !vm.StartTried() && !vm.ManagedSave || !vm.HasFile(o.Path) {
		return err
	}

	return &inventory.Error{
		VM: vm.Name, Host: c.host.Name, Kind: errSeenDisk,
		Detail: fmt.Sprintf("the run that was to create its disks was interrupted, and it was started since, so that its "+
			"guest may have written to %s; nothing was removed", o.Path),
		Remedy: strings.TrimSpace(fmt.Sprintf("Copy from its disks what you need. To have the VM created again, run %s. %s",
			vm.UndefineCommand(), vm.VolumesLeft())),
		Next: inventory.Retry,
	}
}

// makeDisksOf creates the disks of a new VM that are not created yet, and records that they are.
func (m *Manager) makeDisksOf(ctx context.Context, h *inventory.Host, id string, with firstBoot) error {
	vm, err := m.hosts.ReadVM(ctx, h, id)
	if err != nil {
		return err
	}

	keys := beingMade(vm.Metadata.OwnDisks)
	if vm.Active || len(keys) == 0 {
		return nil
	}

	metadata := vm.Metadata
	metadata.OwnDisks = maps.Clone(metadata.OwnDisks)

	disks := vm.DeclaredSpec().Disks
	if err := m.creatorOf(vm).makeOwnDisks(ctx, vm.Name, metadata.OwnDisks, keys, disks, with); err != nil {
		return err
	}

	if _, err := records.WriteMetadata(ctx, vm, metadata); err != nil {
		return err
	}

	_, err = m.hosts.ReadVM(ctx, h, id)

	return err
}

func ownDiskChanged(vm, host, key string, is, want domain.OwnDisk) error {
	return &inventory.Error{
		VM: vm, Host: host, Kind: inventory.ErrUnsupported,
		Detail: fmt.Sprintf("disk %q was created in storage pool %q from image %q; it would have to be created again in %q "+
			"from %q, without its data", key, is.Pool, is.Image, want.Pool, want.Image),
		Remedy:    "Declare another disk under another key, or replace the VM.",
		Attribute: placement.OwnDiskAttribute(key, "pool"),
	}
}
