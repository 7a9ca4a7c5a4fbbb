package placement

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// RenamedOwnDisks returns the records of the disks that are created, under the keys with which they are declared now.
func RenamedOwnDisks(have, declared map[string]domain.OwnDisk) map[string]domain.OwnDisk {
	records := maps.Clone(have)
	made := maps.Clone(have)
	maps.DeleteFunc(made, func(key string, o domain.OwnDisk) bool { return o.Making || IsFirstBoot(key) })

	for to, from := range domain.RenamedOwnDisks(made, declared) {
		records[to] = have[from]
		delete(records, from)
	}

	return records
}

// UnfitPool returns why a pool can't have own disks, or "" if it can.
func UnfitPool(pool *libvirt.StoragePool) string {
	is, err := storage.ReadPool(pool.XML)

	switch {
	case err != nil:
		return err.Error()
	case !storage.FilePool(is.Type), is.Path == nil:
		return fmt.Sprintf("storage pool %q is of type %s, and the disks of a VM need one of files: dir, fs or netfs",
			pool.Name, is.Type)
	default:
		return ""
	}
}

// VolumeRef parses "<pool>/<name>". It returns nil for "".
func VolumeRef(id string) *storage.Ref {
	pool, name, ok := strings.Cut(id, "/")
	if !ok {
		return nil
	}

	return &storage.Ref{Pool: pool, Name: name}
}

// fitsOwnDisks checks that the host has the storage pools of the disks to be created, with room for them, and the
// images.
func fitsOwnDisks(ctx context.Context, a inventory.Reply, d Desired) []inventory.Problem {
	var problems []inventory.Problem

	for _, key := range slices.Sorted(maps.Keys(d.OwnDisks)) {
		attribute, why, missing := ownDiskMisfit(ctx, a, d.OwnDisks[key])
		if why != "" && (!missing || !d.Planned) {
			problems = append(problems, inventory.Problem{Attribute: OwnDiskAttribute(key, attribute), Detail: why})
		}
	}

	return problems
}

func ownDiskMisfit(ctx context.Context, a inventory.Reply, o domain.OwnDisk) (attribute, why string, missing bool) {
	pool, err := a.Host.Conn.StoragePool(ctx, o.Pool)

	switch {
	case inventory.IsNotFound(err), errors.Is(err, libvirt.ErrNoPool):
		return "pool", fmt.Sprintf("it has no storage pool %q", o.Pool), true
	case err != nil:
		return "pool", fmt.Sprintf("its storage pool %q can't be read: %v", o.Pool, err), false
	}

	if why := UnfitPool(pool); why != "" {
		return "pool", why, false
	}

	if !pool.Active {
		return "", "", false // the pool is started before the disk is created
	}

	var need uint64

	if ref := VolumeRef(o.Image); ref != nil {
		image, err := a.Host.Conn.PoolVolume(ctx, ref.Pool, ref.Name)

		switch {
		case inventory.IsNotFound(err), errors.Is(err, libvirt.ErrNoPool):
			return "image", fmt.Sprintf("it has no copy of image %q", o.Image), true
		case err != nil:
			return "image", fmt.Sprintf("its copy of image %q can't be read: %v", o.Image, err), false
		case o.Bytes > 0 && o.Bytes < image.CapacityBytes:
			return "size", fmt.Sprintf("image %q has %s, and the disk is to have %s", o.Image,
				domain.FormatSize(image.CapacityBytes), domain.FormatSize(o.Bytes)), false
		case !o.Based():
			need = image.AllocationBytes
		}
	}

	// Disks are thin: the size that they may grow to doesn't count yet.
	if pool.AvailableBytes <= need {
		return "pool", fmt.Sprintf("its storage pool %q has %s left, and %s are needed", o.Pool,
			domain.FormatSize(pool.AvailableBytes), domain.FormatSize(need)), false
	}

	return "", "", false
}

// ofKey returns the key that a retired record had. Keys of disks contain no dot.
func ofKey(key string) string {
	base, _, _ := strings.Cut(key, ".")

	return base
}

// IsFirstBoot reports whether a record is of a first-boot medium, not of a disk.
func IsFirstBoot(key string) bool {
	return ofKey(key) == domain.MediumKey || ofKey(key) == domain.IgnitionKey
}

// OwnDiskTitle returns the name of an own disk for use in a sentence.
func OwnDiskTitle(key string) string {
	switch ofKey(key) {
	case domain.MediumKey:
		return "the cloud-init medium"
	case domain.IgnitionKey:
		return "the Ignition configuration"
	default:
		return fmt.Sprintf("disk %q", key)
	}
}

// OwnDiskAttribute returns the path of an attribute of an own disk.
func OwnDiskAttribute(key, attribute string) string {
	switch ofKey(key) {
	case domain.MediumKey:
		return "cloud_init." + attribute
	case domain.IgnitionKey:
		return "ignition." + attribute
	default:
		return "disks." + key + "." + attribute
	}
}

// ExistingVolume returns an existing volume by its path, or by "<pool>/<name>".
func ExistingVolume(ctx context.Context, h *inventory.Host, id string) (*libvirt.Volume, error) {
	if ref := VolumeRef(id); ref != nil && ref.Pool != "" {
		return h.Conn.PoolVolume(ctx, ref.Pool, ref.Name)
	}

	v, err := h.Conn.VolumeByPath(ctx, id)
	if err == nil {
		v.Path = id // there may be several ways to write the path
	}

	return v, err
}
