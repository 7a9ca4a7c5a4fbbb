package fleet

import (
	"context"
	"fmt"
	"strings"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/firstboot"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// What a guest gets at its first boot, the medium of cloud-init and the file for
// Ignition, is made, recorded and removed as own disks are, under keys of its own.
// It differs in that its content changes: then another volume is made, which takes
// the first one's place. The first one is recorded under another key until it is
// removed.

// firstBootMode lets nobody but libvirt and QEMU read a volume that may hold
// secrets: libvirt gives the file to QEMU for as long as the VM runs.
const firstBootMode = "0600"

// firstBoot is what these volumes have.
type firstBoot struct {
	medium   *firstboot.NoCloud
	ignition *firstboot.Ignition
}

func (d Desired) firstBoot() firstBoot { return firstBoot{medium: d.CloudInit, ignition: d.Ignition} }

// ofKey leads from the key of a record that was retired to what it was. Keys of
// disks have no dot.
func ofKey(key string) string {
	base, _, _ := strings.Cut(key, ".")

	return base
}

// isFirstBoot tells these records from those of disks.
func isFirstBoot(key string) bool {
	return ofKey(key) == domain.MediumKey || ofKey(key) == domain.IgnitionKey
}

// ownDiskTitle names an own disk in a sentence.
func ownDiskTitle(key string) string {
	switch ofKey(key) {
	case domain.MediumKey:
		return "the cloud-init medium"
	case domain.IgnitionKey:
		return "the Ignition configuration"
	default:
		return fmt.Sprintf("disk %q", key)
	}
}

// ownDiskAttribute is the path of an attribute of an own disk.
func ownDiskAttribute(key, attribute string) string {
	switch ofKey(key) {
	case domain.MediumKey:
		return "cloud_init." + attribute
	case domain.IgnitionKey:
		return "ignition." + attribute
	default:
		return "disks." + key + "." + attribute
	}
}

// declares says that the wish decides about the own disk of a key.
func (d Desired) declares(key string) bool {
	switch ofKey(key) {
	case domain.MediumKey:
		return d.Spec.Medium != nil
	case domain.IgnitionKey:
		return d.Spec.Ignition != nil
	default:
		return d.Spec.Disks != nil
	}
}

// placeFirstBoot writes into a specification where the volume is.
func placeFirstBoot(spec *domain.Spec, key string, o domain.OwnDisk) {
	if key == domain.MediumKey {
		spec.Medium = &domain.DiskSource{File: o.Path}
	} else {
		spec.Ignition = &o.Path
	}
}

// keepsFirstBoot says that the volume that a VM has is what it is to have: the same
// content, in the same storage pool, on its host.
func (f *Fleet) keepsFirstBoot(
	ctx context.Context, h *inventory.Host, hostUUID string, is, want domain.OwnDisk,
) (bool, error) {
	if is.Volume == "" || is.Making || is.Content != want.Content || is.Pool != want.Pool || is.HostUUID != hostUUID {
		return false, nil
	}

	if err := f.storage().EnsureActive(ctx, h.Name, is.Pool); err != nil {
		return false, err
	}

	_, err := h.Conn.PoolVolume(ctx, is.Pool, is.Volume)
	if inventory.IsNotFound(err) {
		return false, nil
	}

	return err == nil, err
}

// retireFirstBoot keeps the record of a volume whose place another one takes, so
// that it is removed once the VM doesn't have it any more. One that was broken off
// while it was made is made again under its name.
func retireFirstBoot(records map[string]domain.OwnDisk, key string, is, want domain.OwnDisk) {
	if is.Volume != "" && (!is.Making || is.Pool != want.Pool) {
		records[key+"."+is.Volume] = is
	}
}

// volume is the volume of a key, with what is declared to be in it.
func (b firstBoot) volume(key string, o domain.OwnDisk, id string) (storage.Disk, error) {
	var content []byte

	switch {
	case key == domain.IgnitionKey && b.ignition != nil:
		content = []byte(b.ignition.Config)
	case key == domain.MediumKey && b.medium != nil:
		medium, err := b.medium.OrInstanceID(id).Medium()
		if err != nil {
			return storage.Disk{}, err
		}

		content = medium.Bytes()
	default:
		return storage.Disk{}, fmt.Errorf("%w: what is to be in it is not declared", inventory.ErrInvalid)
	}

	return storage.Disk{
		Pool: o.Pool, Name: o.Volume, Format: "raw", Bytes: uint64(len(content)), Content: content, Mode: firstBootMode,
	}, nil
}
