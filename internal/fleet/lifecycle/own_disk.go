package lifecycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/placement"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/records"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// maxVolumeName limits the part of a volume's name that consists of the names of its VM and of its disk.
const maxVolumeName = 150

// assignVolumes decides which volumes the declared own disks use, and writes them into the specification of d. It
// returns the records of all own disks. have are the records of disks that were created before. The record of a new
// disk is marked as being created and written before its volume is created, so that no volume is without a record.
// defined are the disks in the VM's definition.
func (m *Manager) assignVolumes(
	ctx context.Context, h *inventory.Host, id, hostUUID string, d *placement.Desired, have map[string]domain.OwnDisk,
	defined map[string]domain.Disk,
) (map[string]domain.OwnDisk, error) {
	records := placement.RenamedOwnDisks(have, d.OwnDisks)
	have = maps.Clone(records)
	d.Spec.Disks = maps.Clone(d.Spec.Disks)

	for _, key := range slices.Sorted(maps.Keys(d.OwnDisks)) {
		want := d.OwnDisks[key]

		if placement.IsFirstBoot(key) {
			keeps, err := m.keepsFirstBoot(ctx, h, hostUUID, have[key], want)
			if err != nil {
				return nil, err
			}

			if keeps {
				placeFirstBoot(&d.Spec, key, have[key])

				continue
			}

			retireFirstBoot(records, key, have[key], want)
		} else if is, ok := have[key]; ok && !is.Creating {
			if is.Pool != want.Pool || is.Image != want.Image {
				return nil, ownDiskChanged(d.Spec.Name, h.Name, key, is, want)
			}

			is.OnDestroy, is.Clone, is.Preallocation = want.OnDestroy, want.Clone, want.Preallocation
			records[key] = is

			if _, there := defined[key]; !there { // an interrupted update created it
				d.Spec.Disks[key] = madeFrom(d.Spec.Disks[key], is)
			}

			continue
		} else if at, handed := d.Handed[key]; handed {
			is, err := placement.Adopted(ctx, h, hostUUID, at, want)
			if err != nil {
				return nil, err
			}

			records = withRecord(records, key, is)

			continue
		}

		if is := have[key]; is.Creating && is.Pool == want.Pool && is.HostUUID == hostUUID {
			want.Volume, want.Path = is.Volume, is.Path
		} else if err := m.nameOwnDisk(ctx, h, id, d.Spec, key, &want); err != nil {
			return nil, err
		}

		want.Creating, want.HostUUID = true, hostUUID

		if placement.IsFirstBoot(key) {
			placeFirstBoot(&d.Spec, key, want)
		} else {
			d.Spec.Disks[key] = madeFrom(d.Spec.Disks[key], want)
		}

		records = withRecord(records, key, want)
	}

	return records, nil
}

func withRecord(records map[string]domain.OwnDisk, key string, o domain.OwnDisk) map[string]domain.OwnDisk {
	if records == nil {
		records = map[string]domain.OwnDisk{}
	}

	records[key] = o

	return records
}

// madeFrom returns the disk with the volume that is created for it as its source.
func madeFrom(disk domain.Disk, o domain.OwnDisk) domain.Disk {
	disk.Source = domain.DiskSource{File: o.Path}
	disk.Format = cmp.Or(disk.Format, "qcow2")

	return disk
}

// nameOwnDisk sets the volume's name. It chooses a name that no volume in the storage pool has yet.
func (m *Manager) nameOwnDisk(
	ctx context.Context, h *inventory.Host, id string, vm domain.Spec, key string, o *domain.OwnDisk,
) error {
	fail := func(err error) error {
		return &inventory.Error{
			VM: vm.Name, Host: h.Name, Err: err,
			Detail: fmt.Sprintf("%s can't be created in storage pool %q", placement.OwnDiskTitle(key), o.Pool),
		}
	}

	if err := m.records.Storage().EnsureActive(ctx, h.Name, o.Pool); err != nil {
		return fail(err)
	}

	pool, err := h.Conn.StoragePool(ctx, o.Pool)
	if err != nil {
		return fail(err)
	}

	if why := placement.UnfitPool(pool); why != "" {
		return fail(fmt.Errorf("%w: %s", inventory.ErrUnsupported, why))
	}

	is, err := storage.ReadPool(pool.XML)
	if err != nil {
		return fail(err)
	}

	base := volumeName(vm, key, id)

	for n := 1; ; n++ {
		o.Volume = base
		if n > 1 {
			o.Volume += "-" + strconv.Itoa(n)
		}

		// A volume that was kept when its disk was removed from the VM still has its name.
		_, err := h.Conn.PoolVolume(ctx, o.Pool, o.Volume)
		if inventory.IsNotFound(err) {
			break
		}

		if err != nil {
			return fail(err)
		}
	}

	o.Path = path.Join(*is.Path, o.Volume)

	return nil
}

// volumeName returns the name of the volume of an own disk, before a possible suffix that makes it unique.
func volumeName(vm domain.Spec, key, id string) string {
	name := fileName(vm.Name) + "-" + fileName(key)
	if vm.Disks[key].Values[domain.EncryptionSecret] != "" && !libvirt.EncryptableName(name) {
		name = "vm-" + name
	}

	return name[:min(len(name), maxVolumeName)] + "-" + id[:8]
}

// fileName replaces characters of a name that need quoting in file names.
func fileName(name string) string {
	return strings.Map(func(r rune) rune {
		plain := r == '.' || r == '_' || r == '-' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		if !plain {
			return '_'
		}

		return r
	}, name)
}

// makeOwnDisks creates the disks that are marked as being created. If the volume of such a disk exists, an interrupted
// run left it, and it is created again unless a guest has seen it.
func (m *Manager) makeOwnDisks(
	ctx context.Context, h *inventory.Host, id, vm string, records map[string]domain.OwnDisk, disks map[string]domain.Disk,
	with firstBoot,
) error {
	for _, key := range slices.Sorted(maps.Keys(records)) {
		o := records[key]
		if !o.Creating {
			continue
		}

		d := storage.Disk{
			Pool: o.Pool, Name: o.Volume, Format: disks[key].Format, Bytes: o.Bytes,
			Secret: disks[key].Values[domain.EncryptionSecret], Preallocation: o.Preallocation,
		}

		if placement.IsFirstBoot(key) {
			var err error
			if d, err = with.volume(key, o, id); err != nil {
				return &inventory.Error{
					VM: vm, Host: h.Name, Kind: inventory.ErrInvalid, Err: err,
					Detail: "creating " + placement.OwnDiskTitle(key),
				}
			}
		}

		if err := m.makeOwnDisk(ctx, h, id, key, o, d); err != nil {
			e := &inventory.Error{
				VM: vm, Host: h.Name, Err: err,
				Detail: fmt.Sprintf("creating %s in storage pool %q", placement.OwnDiskTitle(key), o.Pool),
			}
			if cause, ok := errors.AsType[*inventory.Error](err); ok {
				e.Remedy = cause.Remedy
			}

			if o.Image != "" && inventory.IsNotFound(err) {
				e.Remedy = fmt.Sprintf("Host %q has no copy of image %q. Apply the virtfleet_image, with this host among its "+
					"hosts.", h.Name, o.Image)
			}

			if d.Secret != "" && lacksSecret(ctx, h, d.Secret) {
				e.Remedy = fmt.Sprintf("Host %q has no secret %s. Add the host to the hosts of the virtfleet_secret.", h.Name,
					d.Secret)
			}

			return e
		}

		m.mover.RefreshSharedPool(ctx, h, o.Pool)

		o.Creating = false
		records[key] = o
	}

	return nil
}

// lacksSecret reports whether the host is known to have no such secret.
func lacksSecret(ctx context.Context, h *inventory.Host, uuid string) bool {
	_, err := h.Conn.UserSecret(ctx, uuid)

	return inventory.IsNotFound(err)
}

func (m *Manager) makeOwnDisk(
	ctx context.Context, h *inventory.Host, id, key string, o domain.OwnDisk, d storage.Disk,
) error {
	s := m.records.Storage()
	if err := s.EnsureActive(ctx, h.Name, o.Pool); err != nil {
		return err
	}

	if image := placement.VolumeRef(o.Image); o.Based() {
		d.Overlay = image
	} else {
		d.Clone = image
	}

	m.log.InfoContext(ctx, "creating a disk", "host", h.Name, "storage_pool", o.Pool, "volume", o.Volume)

	made, err := s.CreateVolume(ctx, h.Name, d)
	if errors.Is(err, inventory.ErrExists) {
		if err := m.verifyUnseen(ctx, h, id, key, o); err != nil {
			return err
		}

		if err := m.releaseOwnDisk(ctx, h, id, o, false); err != nil {
			return err
		}

		made, err = s.CreateVolume(ctx, h.Name, d)
	}

	if err == nil && made.Path != o.Path {
		err = errors.Join(fmt.Errorf("%w: its path is %q, not %q", libvirt.ErrInternal, made.Path, o.Path),
			h.Conn.DeleteVolume(ctx, o.Pool, o.Volume))
	}

	return err
}

// verifyUnseen returns an error if a guest may have written to a disk that is marked as being created. A run that is
// killed before it removes the mark leaves a VM that a user can start by hand.
func (m *Manager) verifyUnseen(ctx context.Context, h *inventory.Host, id, key string, o domain.OwnDisk) error {
	vm, err := m.hosts.ReadVM(ctx, h, id)
	if err != nil || placement.IsFirstBoot(key) || !vm.StartTried() && !vm.ManagedSave || !vm.HasFile(o.Path) {
		return err
	}

	return &inventory.Error{
		VM: vm.Name, Host: h.Name, Kind: errSeenDisk,
		Detail: fmt.Sprintf("the run that was to create its disks was interrupted, and it was started since, so that its "+
			"guest may have written to %s; nothing was removed", o.Path),
		Remedy: fmt.Sprintf("Copy from its disks what you need. Then run %s, and apply again, which creates the VM anew.",
			vm.UndefineCommand()),
	}
}

// makeDisksOf creates the disks of a new VM that are not created yet, and records that they are.
func (m *Manager) makeDisksOf(ctx context.Context, h *inventory.Host, id string, with firstBoot) error {
	vm, err := m.hosts.ReadVM(ctx, h, id)
	if err != nil {
		return err
	}

	making := func(o domain.OwnDisk) bool { return o.Creating }
	if vm.Active || !slices.ContainsFunc(slices.Collect(maps.Values(vm.Metadata.OwnDisks)), making) {
		return nil
	}

	metadata := vm.Metadata
	metadata.OwnDisks = maps.Clone(metadata.OwnDisks)

	disks := vm.DeclaredSpec().Disks
	if err := m.makeOwnDisks(ctx, h, id, vm.Name, metadata.OwnDisks, disks, with); err != nil {
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
		Remedy: "Declare another disk under another key, or taint the VM to create it again.",
	}
}
