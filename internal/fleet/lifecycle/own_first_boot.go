package lifecycle

import (
	"context"
	"fmt"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/firstboot"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/placement"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// The medium of cloud-init and the file for Ignition, which a guest reads at its first boot, are created, recorded and
// removed like own disks, under keys of their own. When their content changes, another volume is created, which
// replaces the first one. The first one is recorded under another key until it is removed.

// firstBootMode lets only libvirt and QEMU read a volume that may contain secrets: libvirt makes QEMU the owner of the
// file while the VM runs.
const firstBootMode = "0600"

// firstBoot is the declared content of these volumes.
type firstBoot struct {
	medium   *firstboot.NoCloud
	ignition *firstboot.Ignition
}

func firstBootOf(d placement.Desired) firstBoot {
	return firstBoot{medium: d.CloudInit, ignition: d.Ignition}
}

// declares reports whether the content of the volume of a key is declared.
func (b firstBoot) declares(key string) bool {
	return key == domain.MediumKey && b.medium != nil || key == domain.IgnitionKey && b.ignition != nil
}

// placeFirstBoot writes the path of the volume into a specification.
func placeFirstBoot(spec *domain.Spec, key string, o domain.OwnDisk) {
	if key == domain.MediumKey {
		spec.Medium = &domain.DiskSource{File: o.Path}
	} else {
		spec.Ignition = &o.Path
	}
}

// assignFirstBoot returns the record of a volume that a guest reads at its first boot. is is the record of the one that
// the VM has.
func (c *diskCreator) assignFirstBoot(
	ctx context.Context, vm domain.Spec, key string, is, want domain.OwnDisk,
) (domain.OwnDisk, error) {
	keeps, err := c.keepsFirstBoot(ctx, is, want)
	if err != nil || keeps {
		return is, err
	}

	return c.assignNew(ctx, vm, key, is, want)
}

// keepsFirstBoot reports whether the volume that a VM has is as declared: it has the same content, in the same storage
// pool, on the VM's host.
func (c *diskCreator) keepsFirstBoot(ctx context.Context, is, want domain.OwnDisk) (bool, error) {
	if is.Volume == "" || is.Creating || is.Content != want.Content || is.Pool != want.Pool || is.HostUUID != c.hostUUID {
		return false, nil
	}

	if err := c.records.Storage().EnsureActive(ctx, c.host.Name, is.Pool); err != nil {
		return false, err
	}

	_, err := c.host.Conn.PoolVolume(ctx, is.Pool, is.Volume)
	if inventory.IsNotFound(err) {
		return false, nil
	}

	return err == nil, err
}

// volume returns the volume of a key, with its declared content.
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
