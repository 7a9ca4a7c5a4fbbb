package migration

import (
	"bytes"
	"context"
	"fmt"
	"path"
	"strings"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// comparedBytes is how many bytes of two images are compared to tell whether they are the same image. Different images
// of the same size differ at the beginning, which has the ids of partitions and of the filesystem.
const comparedBytes = 1 << 20

// checkBackingChain checks that the target has the backing chain of a disk of which only the topmost image is copied.
// On another base the guest would find its disk corrupt.
func (t preflight) checkBackingChain(ctx context.Context, f *blockerList, disk domain.MobileDisk) bool {
	if !t.options.copiesIncrementally(disk) {
		return true
	}
	for _, base := range disk.Backing {
		if !t.checkBackingImage(ctx, f, disk, base.Path) {
			return false
		}
	}
	return true
}

// checkBackingImage checks one image of the chain. An image outside of all storage pools is seen only when files are
// probed.
func (t preflight) checkBackingImage(ctx context.Context, f *blockerList, disk domain.MobileDisk, file string) bool {
	at := "disks." + disk.Key
	put, whole := "Put the same file there", `Set migration_options.copy_storage = "full", which copies all of the disk.`
	if disk.Own != nil {
		put = fmt.Sprintf("Make sure that host %q has a copy of image %q at that path: name the host in the hosts of the "+
			"virtfleet_image", t.target.Name(), disk.Own.Image)
		whole = put + "."
	}
	if file == "" {
		f.block(DisksNotLiveMigratable, at, fmt.Sprintf("of disk %q only the topmost image is to be copied (%s), and what "+
			"that is based on is no file", disk.Key, disk.Path), whole)
		return false
	}
	what := fmt.Sprintf("of disk %q only the topmost image is to be copied (%s), which is based on %s", disk.Key,
		disk.Path, file)
	here, there, same, err := t.compareFile(ctx, file)
	switch {
	case err != nil && t.probeFiles:
		f.block(DisksNotLiveMigratable, at, fmt.Sprintf("%s, and that can't be compared: %v", what, err), whole)
	case err != nil:
		f.unanswered(DisksNotLiveMigratable, at, t.target, "the storage", err)
	case same, !t.probeFiles && t.isCopiedFirst(file):
		return true
	case here != nil && there != nil:
		f.block(DisksNotLiveMigratable, at, fmt.Sprintf("%s, and host %q has another image there, %s", what, t.target.Name(),
			describeDifference(*here, *there)), orElse(put, disk, whole))
	case t.probeFiles, here != nil && t.hasPoolOf(ctx, path.Dir(file)):
		f.block(DisksNotLiveMigratable, at, fmt.Sprintf("%s, and host %q has no such file", what, t.target.Name()),
			orElse(put+", and refresh the storage pool of its directory", disk, whole))
	default:
		f.mayBlock(DisksNotLiveMigratable, at,
			fmt.Sprintf("%s, and whether host %q has the same file is unknown, because "+
				"not both hosts have a storage pool of its directory", what, t.target.Name()),
			"It is seen before anything is copied.")
		return true
	}
	return false
}

// isCopiedFirst says whether the image is copied to the target before it is needed there.
func (t preflight) isCopiedFirst(file string) bool {
	_, copied := t.vm.BaseImages[file]
	return copied
}

// orElse joins two remedies. A disk that was made with the VM has only the first.
func orElse(remedy string, disk domain.MobileDisk, other string) string {
	if disk.Own != nil {
		return remedy + "."
	}
	return remedy + ". Or " + strings.ToLower(other[:1]) + other[1:]
}

// compareFile looks for a file on both hosts, and says whether both have the same image.
func (t preflight) compareFile(ctx context.Context, file string) (here, there *libvirt.Volume, same bool, err error) {
	find := findVolume
	if t.probeFiles {
		find = func(ctx context.Context, h *libvirt.Host, at string) (*libvirt.Volume, error) {
			return h.FileIfThere(ctx, at)
		}
	}
	if here, err = find(ctx, t.source, file); err == nil {
		there, err = find(ctx, t.target, file)
	}
	same = here != nil && there != nil && dimensionsOf(*here) == dimensionsOf(*there)
	if err == nil && same && t.probeFiles {
		same, err = t.beginsAlike(ctx, file)
	}
	return here, there, same, err
}

// beginsAlike compares the beginnings of a file on both hosts.
func (t preflight) beginsAlike(ctx context.Context, file string) (bool, error) {
	here, err := t.source.Beginning(ctx, file, comparedBytes)
	if err != nil {
		return false, err
	}
	there, err := t.target.Beginning(ctx, file, comparedBytes)
	return bytes.Equal(here, there), err
}

// dimensions are the sizes and the format of an image, as storage pools report them.
type dimensions struct {
	format             string
	capacity, physical uint64
}

func dimensionsOf(v libvirt.Volume) dimensions {
	return dimensions{format: v.Format, capacity: v.CapacityBytes, physical: v.PhysicalBytes}
}

func (d dimensions) String() string {
	return fmt.Sprintf("%s of %d bytes in a file of %d", d.format, d.capacity, d.physical)
}

// describeDifference says how the target's image differs from the source's.
func describeDifference(here, there libvirt.Volume) string {
	if dimensionsOf(here) == dimensionsOf(there) {
		return "of the same size"
	}
	return fmt.Sprintf("%s rather than %s", dimensionsOf(there), dimensionsOf(here))
}

// hasPoolOf says whether the target has a storage pool of the directory.
func (t preflight) hasPoolOf(ctx context.Context, directory string) bool {
	_, err := t.target.FreeSpace(ctx, directory)
	return err == nil
}
