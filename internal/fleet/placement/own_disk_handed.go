package placement

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// A disk whose form changes, between a volume and a disk of the VM's own, keeps its file or its RBD image. That has to
// be what the new form describes.

// CheckHanded returns a problem for each disk of d.Handed that isn't what the new form describes.
func CheckHanded(ctx context.Context, vm *inventory.VM, d Desired) []inventory.Problem {
	var problems []inventory.Problem

	has := vm.DeclaredSpec().Disks

	for _, key := range slices.Sorted(maps.Keys(d.Handed)) {
		at := d.Handed[key]

		attribute, why := handedMisfit(ctx, vm, d, key)
		if is := cmp.Or(has[key].Source.RBDPath(), has[key].Source.Name()); is != at {
			attribute, why = "disks."+key, fmt.Sprintf("the VM has %s by now", is)
		}

		if why != "" {
			problems = append(problems, inventory.Problem{
				Attribute: attribute, Summary: "Disk is not what is declared",
				Detail: fmt.Sprintf("Disk %q of VM %q is %s on host %q, and it is declared in another form than before: %s.",
					key, vm.Name, at, vm.Host, why),
				Remedy: "Declare the disk as it is. Declare another disk under another key.",
			})
		}
	}

	return problems
}

// handedMisfit returns why the file of a disk is not the declared volume or own disk, or "" if it is.
func handedMisfit(ctx context.Context, vm *inventory.VM, d Desired, key string) (attribute, why string) {
	h := vm.On
	of := func(name string) string { return OwnDiskAttribute(key, name) }

	own, isOwn := d.OwnDisks[key]
	at := domain.SourceAt(d.Handed[key])

	switch {
	case isOwn:
	case at.Network != nil:
		return of("volume"), otherImage(ctx, h, d.Volumes[key], *at.Network, d.Planned)
	default:
		_, why := handedVolume(ctx, h, storage.ParseRef(d.Volumes[key]).Pool, at, d.Planned)

		return of("volume"), why
	}

	found, why := handedVolume(ctx, h, own.Pool, at, d.Planned)
	if found == nil {
		return of("pool"), why
	}

	if at.Network != nil {
		if why := otherImage(ctx, h, own.Pool+"/"+found.Name, *at.Network, d.Planned); why != "" {
			return of("pool"), why
		}

		if own.Based() {
			return of("clone"), "it is no overlay of its image. Set clone = \"full\""
		}
	}

	v := found.UsedAs(UsedFormat(vm.DeclaredSpec(), found.Path))

	base, err := imagePath(ctx, h, own)
	if own.Image == "" && d.Incomplete {
		base = v.Backing // the image isn't known yet
	}

	switch {
	case err != nil:
		return of("image"), fmt.Sprintf("image %q can't be read: %v", own.Image, err)
	case v.Backing != base && base == "":
		return of("image"), fmt.Sprintf("it is an overlay of %s, which image has to name", v.Backing)
	case v.Backing != base:
		return of("image"), fmt.Sprintf("it is based on %q, and image %q is %s", v.Backing, own.Image, base)
	case own.Bytes > 0 && own.Bytes < v.CapacityBytes:
		return of("size"), fmt.Sprintf("it has %s, and disks never shrink", domain.FormatSize(v.CapacityBytes))
	default:
		return "", ""
	}
}

// otherImage returns why an RBD image isn't the volume with that id, or "" if it is. If planned, the same apply may
// create the volume and its pool.
func otherImage(ctx context.Context, h *inventory.Host, id string, have domain.NetworkSource, planned bool) string {
	v, err := ExistingVolume(ctx, h, id)
	if inventory.IsNotFound(err) && planned {
		return ""
	}

	if err != nil {
		return fmt.Sprintf("volume %q can't be read: %v", id, err)
	}

	source, why, err := SourceOf(ctx, h, v)
	switch is := (domain.DiskSource{Network: &have}); {
	case err != nil:
		return fmt.Sprintf("storage pool %q can't be read: %v", v.Pool, err)
	case why != "" || domain.SameDisk(source, is, true):
		return why
	case source.Name() == is.Name():
		return fmt.Sprintf("volume %q is on other servers: %s", id, source.RBDPath())
	default:
		return fmt.Sprintf("volume %q is %s", id, source)
	}
}

// handedVolume returns the volume of a storage pool that a disk is, or why there is none. If planned, the same apply
// may create the pool.
func handedVolume(
	ctx context.Context, h *inventory.Host, pool string, at domain.DiskSource, planned bool,
) (v *libvirt.Volume, why string) {
	p, err := h.Conn.StoragePool(ctx, pool)

	switch {
	case inventory.IsNotFound(err), errors.Is(err, libvirt.ErrNoPool):
		if planned {
			return nil, ""
		}

		return nil, fmt.Sprintf("the host has no storage pool %q", pool)
	case err != nil:
		return nil, fmt.Sprintf("storage pool %q can't be read: %v", pool, err)
	case !p.Active:
		return nil, fmt.Sprintf("storage pool %q is not active", pool)
	}

	if why := UnfitPool(ctx, h, p, ""); why != "" {
		return nil, why
	}

	v, err = h.Conn.PoolVolume(ctx, pool, path.Base(at.Name()))

	switch {
	case inventory.IsNotFound(err):
		return nil, fmt.Sprintf("storage pool %q has no volume of that name, as far as it was refreshed", pool)
	case err != nil:
		return nil, fmt.Sprintf("storage pool %q can't be read: %v", pool, err)
	case v.Path != at.VolumePath():
		return nil, fmt.Sprintf("volume %s/%s is %s", pool, v.Name, v.Path)
	default:
		return v, ""
	}
}

// imagePath returns the path of the image that an own disk is an overlay of, or "" if it is no overlay.
func imagePath(ctx context.Context, h *inventory.Host, o domain.OwnDisk) (string, error) {
	image := storage.ParseRef(o.Image)
	if image == nil || !o.Based() {
		return "", nil
	}

	v, err := h.Conn.PoolVolume(ctx, image.Pool, image.Name)
	if err != nil {
		return "", err
	}

	return v.Path, nil
}

// Adopted returns the record of a disk that the VM has already, with that format, and that becomes its own. The disk
// grows from its present size.
func Adopted(
	ctx context.Context, h *inventory.Host, hostUUID, at, format string, want domain.OwnDisk,
) (domain.OwnDisk, error) {
	v, err := h.Conn.PoolVolume(ctx, want.Pool, path.Base(domain.SourceAt(at).Name()))
	if err != nil {
		return domain.OwnDisk{}, err
	}

	want.Volume, want.Path, want.HostUUID = v.Name, v.Path, hostUUID
	if want.Bytes > 0 {
		want.Bytes = v.UsedAs(format).CapacityBytes
	}

	return want, nil
}
