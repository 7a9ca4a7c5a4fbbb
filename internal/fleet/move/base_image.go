package move

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// missingImage is a backing image of the VM's disks that the target has no complete copy of.
type missingImage struct {
	ref storage.Ref
	// path is where both hosts' storage pools have the image, bytes is its size.
	path  string
	bytes uint64
}

// baseImagesToCopy returns the images that are copied to the target before the VM moves there. An image that can't be
// copied is a blocker of the disk that is based on it.
func (ck *Checks) baseImagesToCopy(
	ctx context.Context, vm *inventory.VM, facts domain.Mobility, to *inventory.Host,
) []missingImage {
	var missing []missingImage

	for _, disk := range facts.Disks {
		if disk.Own == nil || !disk.Own.Based() {
			continue
		}

		ref := storage.ParseRef(disk.Own.Image)
		if ref == nil || !ref.NamedByContent() ||
			slices.ContainsFunc(missing, func(m missingImage) bool { return m.ref == *ref }) {
			continue
		}

		here, whole, err := ck.copiesOfImage(ctx, vm.On, to, *ref)
		if err != nil || whole {
			continue
		}

		place := domain.OwnDisk{Pool: ref.Pool, Volume: ref.Name, Path: here.Path}
		if why, _ := ownDiskPoolMisfit(ctx, to, "", place); why != "" {
			continue
		}

		missing = append(missing, missingImage{ref: *ref, path: here.Path, bytes: here.AllocationBytes})
	}

	return missing
}

// copiesOfImage returns the source's copy of an image, and whether the target has a whole copy. It reads only a copy
// that looks like the source's.
func (ck *Checks) copiesOfImage(
	ctx context.Context, from, to *inventory.Host, ref storage.Ref,
) (here *libvirt.Volume, whole bool, err error) {
	if here, err = from.Conn.PoolVolume(ctx, ref.Pool, ref.Name); err != nil {
		return nil, false, err
	}

	there, err := to.Conn.PoolVolume(ctx, ref.Pool, ref.Name)
	if inventory.IsNotFound(err) {
		return here, false, nil
	}

	if err != nil {
		return nil, false, err
	}

	if there.Format != here.Format || there.PhysicalBytes != here.PhysicalBytes {
		return here, false, nil
	}

	whole, err = ck.records.Storage().IsWhole(ctx, to.Name, *there)

	return here, whole, err
}

// copyBaseImages copies the missing images to the target.
func (m *move) copyBaseImages(ctx context.Context, inspected migration.VM) error {
	for _, image := range m.mover.baseImagesToCopy(ctx, m.vm, inspected.Mobility, m.to) {
		if err := m.copyBaseImage(ctx, image); err != nil {
			return &inventory.Error{
				VM: m.vm.Name, Host: m.to.Name, Kind: ErrNotMoved, Err: err,
				Detail: fmt.Sprintf("image %q, which its disks are based on, was not copied there; it was not moved",
					image.ref),
				Remedy: "First name the host in the hosts of the virtfleet_image, as a change of its own.",
				Next:   inventory.Retry,
			}
		}
	}

	return nil
}

// copyBaseImage copies one image, once for all VMs that need it.
func (m *move) copyBaseImage(ctx context.Context, image missingImage) error {
	mv := m.mover

	unlock, err := mv.copying.Lock(ctx, m.to.Name+" "+image.path)
	if err != nil {
		return err
	}
	defer unlock()

	_, whole, err := mv.copiesOfImage(ctx, m.from, m.to, image.ref)
	if err != nil || whole {
		return err
	}

	mv.log.InfoContext(ctx, "copying a base image", "name", m.vm.Name, "source", m.from.Name, "target", m.to.Name,
		"storage_pool", image.ref.Pool, "volume", image.ref.Name)

	err = mv.records.Storage().CopyImage(ctx, m.from.Name, m.to.Name, image.ref)
	if err != nil && ctx.Err() != nil {
		return errors.Join(context.Cause(ctx), err)
	}

	return err
}

// imageCopyProblems returns a problem for the images that are copied to the target first.
func imageCopyProblems(vm *inventory.VM, inspected migration.VM, to *inventory.Host) []inventory.Problem {
	if len(inspected.BaseImages) == 0 {
		return nil
	}

	var lines []string
	for _, file := range slices.Sorted(maps.Keys(inspected.BaseImages)) {
		lines = append(lines, fmt.Sprintf("  - %s, %s", file, domain.FormatSize(inspected.BaseImages[file])))
	}

	return []inventory.Problem{{
		Attribute: "host", Summary: "Images will be copied to the target first", Warning: true,
		Detail: fmt.Sprintf("Host %q has no copy of images that disks of virtual machine %q are based on. They are copied "+
			"there from host %q before it moves:\n%s", to.Name, vm.Name, vm.Host, strings.Join(lines, "\n")),
		Remedy: "To have them there at all times, name the host in the hosts of the virtfleet_image. That holds for its " +
			"current content: a copy of earlier content is sent only by a move of a VM that needs it.",
	}}
}
