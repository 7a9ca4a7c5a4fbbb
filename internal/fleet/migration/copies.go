package migration

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// DiskCopy is a disk whose content is copied to the target with the VM, into a new image at the same path. A backing
// chain becomes one image, unless only the topmost image is copied. What an image has in addition to the guest's data,
// such as internal snapshots, is not copied.
type DiskCopy struct {
	Disk domain.MobileDisk
	// Capacity is the size that the guest sees, in bytes. Used is the size of the topmost image at the source, which
	// its copy requires at least. It is 0 if unknown because the image is in no pool.
	Capacity, Used uint64
	// allocated is how much of the disk the guest has used, as the hypervisor reports it.
	allocated uint64
}

// Bytes returns how much is to be copied at least, as far as known beforehand: the size of the topmost image, else what
// the guest has used of the disk.
func (c DiskCopy) Bytes() uint64 { return cmp.Or(c.Used, min(c.allocated, c.Capacity)) }

// Copies returns the disks that are copied when the running VM moves from the source to the target. CheckHosts reports
// what blocks that.
func Copies(ctx context.Context, vm VM, source, target *libvirt.Host, o Options) []DiskCopy {
	var f blockerList
	if !o.copiesAnyDisk(vm.Mobility) {
		return nil
	}
	return preflight{vm: vm, source: source, target: target, options: o.WithDefaults()}.plannedCopies(ctx, &f)
}

// MethodTo returns the method by which the VM would move from the source to the target.
func MethodTo(ctx context.Context, vm VM, source, target *libvirt.Host, o Options) string {
	switch {
	case !vm.Live():
		return MethodCold
	case len(imageCopies(Copies(ctx, vm, source, target, o))) > 0:
		return MethodBlock
	default:
		return MethodLive
	}
}

// isImage says whether the disk is of the kind that can be copied: a file that one VM writes to.
func isImage(disk domain.MobileDisk) bool {
	return disk.Path != "" && !disk.Block && !disk.ReadOnly && !disk.Shareable && disk.Device == "disk"
}

// isMedium says whether the disk is a read-only file that was made with the VM. Such a file is copied unchanged.
func isMedium(disk domain.MobileDisk) bool {
	return disk.Own != nil && disk.Path != "" && !disk.Block && disk.ReadOnly
}

// imageCopies returns the copies that the hypervisor makes while the guest writes to the disks.
func imageCopies(copies []DiskCopy) []DiskCopy {
	return slices.DeleteFunc(slices.Clone(copies), func(c DiskCopy) bool { return isMedium(c.Disk) })
}

// copiesStorage says whether the options copy disks that only the source has. Disks that were made with the VM are
// always copied.
func (o Options) copiesStorage() bool {
	return o.CopyStorage == CopyFull || o.CopyStorage == CopyIncremental
}

// copiesAnyDisk says whether any of the VM's disks may be copied.
func (o Options) copiesAnyDisk(facts domain.Mobility) bool {
	return slices.ContainsFunc(facts.Disks, o.copiesDisk)
}

// copiesDisk says whether the disk is copied unless both hosts reach it.
func (o Options) copiesDisk(disk domain.MobileDisk) bool {
	return isMedium(disk) || isImage(disk) && (disk.Own != nil || o.copiesStorage())
}

// copiesIncrementally says whether only the topmost image of the disk's backing chain is copied.
func (o Options) copiesIncrementally(disk domain.MobileDisk) bool {
	if disk.Own != nil {
		return disk.Own.Based()
	}
	return o.CopyStorage == CopyIncremental
}

// chooseIncremental says whether to copy only the topmost images, rather than all that the guest sees. A migration does
// the same for all its disks. To copy all is right on any backing image, but copies more.
func (o Options) chooseIncremental(copies []DiskCopy) bool {
	topmost := false
	for _, c := range copies {
		if !o.copiesIncrementally(c.Disk) && len(c.Disk.Backing) > 0 {
			return false
		}
		topmost = topmost || o.copiesIncrementally(c.Disk)
	}
	return topmost
}

// Base returns the image that the copy of a disk is based on, on the target as at the source. Its path is "" for none.
func (o Options) Base(disk domain.MobileDisk) domain.BackingImage {
	if !o.copiesIncrementally(disk) || len(disk.Backing) == 0 {
		return domain.BackingImage{}
	}
	return disk.Backing[0]
}

// StayingImages returns the keys of disks that are image files of the VM's host, and that a migration with these
// options doesn't copy. Unless such a file is on storage that hosts share, the VM lacks it on the target. Neither the
// configuration nor a single host tells whether it is.
func (o Options) StayingImages(facts domain.Mobility) []string {
	var staying []string
	for _, disk := range facts.Disks {
		if isImage(disk) && !o.copiesDisk(disk) && !o.declaresShared(disk) {
			staying = append(staying, disk.Key)
		}
	}
	return staying
}

// checkImageCopy finds what blocks copying a disk.
func (t preflight) checkImageCopy(
	ctx context.Context, f *blockerList, disk domain.MobileDisk, there *libvirt.Volume,
) bool {
	at := "disks." + disk.Key
	switch {
	case there != nil && !t.vm.leftByEarlierAttempt(disk.Path, *there):
		*f = append(*f, t.pathOccupied(disk))
	case isMedium(disk):
		return true
	case disk.Encrypted && disk.Passphrase == "":
		f.block(DisksNotLiveMigratable, at, fmt.Sprintf("disk %q is %s, which is encrypted in another way than with LUKS "+
			"and the UUID of a secret: its copy would not be encrypted",
			disk.Key, describeStorage(disk)),
			"Put it on storage that both hosts reach under this path, or encrypt it in the guest.")
	case disk.Encrypted && !libvirt.EncryptableName(path.Base(disk.Path)):
		f.block(DisksNotLiveMigratable, at, fmt.Sprintf("disk %q is %s, which is encrypted, and libvirt makes no encrypted "+
			"copy of that name: %s", disk.Key, describeStorage(disk), libvirt.NameRuleOfEncrypted),
			"Rename the file while the VM is off, or put it on storage that both hosts reach under this path.")
	case !slices.Contains([]string{"raw", "qcow2"}, disk.Format):
		f.block(DisksNotLiveMigratable, at, fmt.Sprintf("disk %q is %s of format %q, and only raw and qcow2 are copied",
			disk.Key, describeStorage(disk), disk.Format), "Put it on storage that both hosts reach under this path.")
	default:
		return t.checkBackingChain(ctx, f, disk)
	}
	return false
}

// pathOccupied says that the target has another file at the path that the disk would be copied to.
func (t preflight) pathOccupied(disk domain.MobileDisk) Blocker {
	same := `set migration_options.copy_storage = "none".`
	if disk.Own != nil {
		same = "set shared = true in the virtfleet_storage_pool."
	}
	return Blocker{
		Reason: DiskPathTaken, Status: status.False, Attribute: "disks." + disk.Key,
		Message: fmt.Sprintf("disk %q would be copied to %s, and host %q has a file of that path, which is never "+
			"overwritten", disk.Key, disk.Path, t.target.Name()),
		Remedy: "Remove or rename the file there if it is not needed. If it is the same storage, " + same,
	}
}

// measureDisks reads the sizes of the disks.
func (t preflight) measureDisks(ctx context.Context, f *blockerList, copies []DiskCopy) []DiskCopy {
	if len(copies) == 0 {
		return nil
	}
	infos, err := t.source.BlockInfos(ctx, t.vm.UUID, diskTargets(copies))
	if err != nil {
		f.unanswered(DisksNotLiveMigratable, "disks", t.source, "the size of the disks", err)
		return copies
	}
	for i := range copies {
		c := &copies[i]
		if c.Disk.Target == "" {
			c.Capacity = c.Used
			continue
		}
		info := infos[c.Disk.Target]
		if info.Err != nil || info.Capacity == 0 {
			f.block(DisksNotLiveMigratable, "disks."+c.Disk.Key, fmt.Sprintf(
				"disk %q is to be copied, and its size can't be read: %v", c.Disk.Key, info.Err),
				"See why its host can't read it.")
		}
		c.Capacity, c.allocated = info.Capacity, info.Allocation
	}
	return copies
}

// diskTargets returns libvirt's names of the disks. It omits files that aren't disks to libvirt.
func diskTargets(copies []DiskCopy) []string {
	var names []string
	for _, c := range copies {
		if c.Disk.Target != "" {
			names = append(names, c.Disk.Target)
		}
	}
	return names
}

// copySizes returns how much room the disks require at least and at most.
func copySizes(copies []DiskCopy) (least, most uint64) {
	for _, c := range copies {
		least += c.Used
		most += c.Capacity
	}
	return least, most
}

// copiedBytes returns how much QEMU reads of disks that it copies: of whole disks, also what is empty, and of topmost
// images what they hold.
func copiedBytes(copies []DiskCopy, topmost bool) (bytes uint64) {
	for _, c := range copies {
		if topmost {
			bytes += c.Bytes()
		} else {
			bytes += c.Capacity
		}
	}
	return bytes
}

// checkCopiesFit checks that the target has room for the disks.
func (t preflight) checkCopiesFit(ctx context.Context, f *blockerList, copies []DiskCopy) []DiskCopy {
	byDirectory := map[string][]DiskCopy{}
	var directories []string
	for _, c := range copies {
		d := path.Dir(c.Disk.Path)
		if byDirectory[d] == nil {
			directories = append(directories, d)
		}
		byDirectory[d] = append(byDirectory[d], c)
	}
	for _, d := range directories {
		at := "disks." + byDirectory[d][0].Disk.Key
		available, err := t.target.FreeSpace(ctx, d)
		switch {
		case errors.Is(err, libvirt.ErrNotFound) && !slices.ContainsFunc(byDirectory[d], notOwn):
			// A host that reports own disks reports their pools too.
		case errors.Is(err, libvirt.ErrNotFound):
			f.mayBlock(InsufficientStorage, at,
				fmt.Sprintf("host %q has no storage pool of directory %s, so that whether there "+
					"is such a directory, room in it and no file of the disk's name is unknown", t.target.Name(), d),
				"Define a storage pool for it. Without one it is seen before anything is copied.")
		case err != nil:
			f.unanswered(InsufficientStorage, at, t.target, "the storage pool of "+d, err)
		default:
			t.checkCopiesFitIn(ctx, f, at, t.spaceAfterImages(d, available), d, byDirectory[d])
		}
	}
	return copies
}

// spaceAfterImages returns the room that remains in a directory after the images that are copied first.
func (t preflight) spaceAfterImages(directory string, available uint64) uint64 {
	for file, bytes := range t.vm.BaseImages {
		if path.Dir(file) == directory {
			available -= min(available, bytes)
		}
	}
	return available
}

func notOwn(c DiskCopy) bool { return c.Disk.Own == nil }

// checkCopiesFitIn compares the room that the disks require with what is available.
func (t preflight) checkCopiesFitIn(
	ctx context.Context, f *blockerList, at string, available uint64, directory string, copies []DiskCopy,
) {
	least, most := copySizes(copies)
	if available >= most {
		return
	}
	remedy := t.freeSpaceRemedy(ctx, directory)
	switch {
	case available < least:
		f.block(InsufficientStorage, at, fmt.Sprintf("the disks take %s at least, and %s of host %q has room for %s",
			domain.FormatSize(least), directory, t.target.Name(), domain.FormatSize(available)), remedy)
	default:
		f.mayBlock(InsufficientStorage, at, fmt.Sprintf("the disks may take up to %s, and %s of host %q has room for %s",
			domain.FormatSize(most), directory, t.target.Name(), domain.FormatSize(available)), remedy)
	}
}

// removalTimeout bounds removing images.
const removalTimeout = 2 * time.Minute
