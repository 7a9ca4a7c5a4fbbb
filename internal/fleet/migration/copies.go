package migration

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/lease"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// Copy is a disk whose content goes to the target along with the VM, into a new image under the same path. A
// backing chain becomes one image, unless only the topmost one is copied; what an image has besides the guest's data,
// such as internal snapshots, stays.
type Copy struct {
	Disk domain.MobileDisk
	// Capacity is what the guest sees, in bytes; Used is what the topmost image takes at the source, the least that its
	// copy will take, 0 where that isn't known because the image is in no pool.
	Capacity, Used uint64
	// allocated is what the hypervisor says that the guest has used of it.
	allocated uint64
}

// Bytes is how much is to be copied at least, as far as is known beforehand: what the topmost image takes, else what
// the guest has used of it.
func (c Copy) Bytes() uint64 { return cmp.Or(c.Used, min(c.allocated, c.Capacity)) }

// Copies returns the disks that are copied when the VM, which runs, moves from the source to the target. What is
// blocks that is for Preflight to say.
func Copies(ctx context.Context, vm VM, source, target *libvirt.Host, o Options) []Copy {
	var f blockerList
	if !o.copiesAnyDisk(vm.Facts) {
		return nil
	}
	return preflight{vm: vm, source: source, target: target, options: o.WithDefaults()}.plannedCopies(ctx, &f)
}

// MethodTo says how the VM would move from the source to the target: one of the methods.
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

// isImage says that a disk is of the kind that is copied: a file that one VM writes to.
func isImage(disk domain.MobileDisk) bool {
	return disk.Path != "" && !disk.Block && !disk.ReadOnly && !disk.Shareable && disk.Device == "disk"
}

// isMedium says that a disk is a file that was made with the VM and is only read: it goes along as it is.
func isMedium(disk domain.MobileDisk) bool {
	return disk.Own != nil && disk.Path != "" && !disk.Block && disk.ReadOnly
}

// imageCopies are the copies that the hypervisor makes while the guest writes to the disks.
func imageCopies(copies []Copy) []Copy {
	return slices.DeleteFunc(slices.Clone(copies), func(c Copy) bool { return isMedium(c.Disk) })
}

// copiesStorage says that the options have disks copied which only the source has. Those that were made with the VM are
// copied without being told.
func (o Options) copiesStorage() bool {
	return o.CopyStorage == CopyFull || o.CopyStorage == CopyIncremental
}

// copiesAnyDisk says whether any of the VM's disks may be copied.
func (o Options) copiesAnyDisk(facts domain.Mobility) bool {
	return slices.ContainsFunc(facts.Disks, o.copiesDisk)
}

// copiesDisk says that the disk is copied unless both hosts reach it.
func (o Options) copiesDisk(disk domain.MobileDisk) bool {
	return isMedium(disk) || isImage(disk) && (disk.Own != nil || o.copiesStorage())
}

// copiesIncrementally says that of the disk's backing chain only the topmost image is copied.
func (o Options) copiesIncrementally(disk domain.MobileDisk) bool {
	if disk.Own != nil {
		return disk.Own.Based()
	}
	return o.CopyStorage == CopyIncremental
}

// chooseIncremental chooses between libvirt's two ways, of which a migration has one for all its disks: copying the
// topmost images, or all that the guest sees. The latter is right on any base, and copies more.
func (o Options) chooseIncremental(copies []Copy) bool {
	topmost := false
	for _, c := range copies {
		if !o.copiesIncrementally(c.Disk) && len(c.Disk.Backing) > 0 {
			return false
		}
		topmost = topmost || o.copiesIncrementally(c.Disk)
	}
	return topmost
}

// Base is what the copy of a disk is based on, on the target as at the source; its path is "" where that is nothing.
func (o Options) Base(disk domain.MobileDisk) domain.BackingImage {
	if !o.copiesIncrementally(disk) || len(disk.Backing) == 0 {
		return domain.BackingImage{}
	}
	return disk.Backing[0]
}

// StayingImages are the keys of disks that are images in files of the VM's host and aren't copied by a migration
// with these options. Unless the file is on storage that hosts share, which no host alone can tell and no configuration
// declares, the VM can't do without them elsewhere.
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
	case !slices.Contains([]string{"raw", "qcow2"}, disk.Format):
		f.block(DisksNotLiveMigratable, at, fmt.Sprintf("disk %q is %s of format %q, and only raw and qcow2 are copied",
			disk.Key, describeStorage(disk), disk.Format), "Put it on storage that both hosts reach under this path.")
	default:
		return t.checkBackingChain(ctx, f, disk)
	}
	return false
}

// pathOccupied says that the target has another file where the disk would be copied to.
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

// measureDisks finds out how large the disks are.
func (t preflight) measureDisks(ctx context.Context, f *blockerList, copies []Copy) []Copy {
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

// diskTargets are the disks' names for libvirt, of those that it has as disks.
func diskTargets(copies []Copy) []string {
	var names []string
	for _, c := range copies {
		if c.Disk.Target != "" {
			names = append(names, c.Disk.Target)
		}
	}
	return names
}

// copySizes is how much room the disks take at least, and at most.
func copySizes(copies []Copy) (least, most uint64) {
	for _, c := range copies {
		least += c.Used
		most += c.Capacity
	}
	return least, most
}

// checkCopiesRoom checks that the target has room for the disks.
func (t preflight) checkCopiesRoom(ctx context.Context, f *blockerList, copies []Copy) []Copy {
	byDirectory := map[string][]Copy{}
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
		available, err := t.target.Room(ctx, d)
		switch {
		case errors.Is(err, libvirt.ErrNotFound) && !slices.ContainsFunc(byDirectory[d], notOwn):
			// Whoever knows of own disks knows of their pools.
		case errors.Is(err, libvirt.ErrNotFound):
			f.mayBlock(InsufficientStorage, at,
				fmt.Sprintf("host %q has no storage pool of directory %s, so that whether there "+
					"is such a directory, room in it and no file of the disk's name is unknown", t.target.Name(), d),
				"Define a storage pool for it. Without one it is seen before anything is copied.")
		case err != nil:
			f.unanswered(InsufficientStorage, at, t.target, "the storage pool of "+d, err)
		default:
			t.checkRoomIn(f, at, t.roomAfterImages(d, available), d, byDirectory[d])
		}
	}
	return copies
}

// roomAfterImages is what is left of a directory's room once the images are there that are brought before.
func (t preflight) roomAfterImages(directory string, available uint64) uint64 {
	for file, bytes := range t.vm.Brings {
		if path.Dir(file) == directory {
			available -= min(available, bytes)
		}
	}
	return available
}

func notOwn(c Copy) bool { return c.Disk.Own == nil }

// checkRoomIn compares what the disks take with what is there.
func (t preflight) checkRoomIn(f *blockerList, at string, available uint64, directory string, copies []Copy) {
	least, most := copySizes(copies)
	const remedy = "Make room there."
	switch {
	case available < least:
		f.block(InsufficientStorage, at, fmt.Sprintf("the disks take %s at least, and %s of host %q has room for %s",
			bytesText(least), directory, t.target.Name(), bytesText(available)), remedy)
	case available < most:
		f.mayBlock(InsufficientStorage, at, fmt.Sprintf("the disks may take up to %s, and %s of host %q has room for %s",
			bytesText(most), directory, t.target.Name(), bytesText(available)), remedy)
	}
}

// removalTimeout bounds removing images.
const removalTimeout = 2 * time.Minute

// makeImages makes the images on the target that the disks are copied into, which must not be there yet. What it made
// is in r.images, whether it fails or not.
func (r *run) makeImages(ctx context.Context) error {
	if !r.Options.copiesAnyDisk(r.VM.Facts) {
		return nil
	}
	to := r.probingPreflight()
	var f blockerList
	copies := to.plannedCopies(ctx, &f)
	if blocking := Blocking(f); len(blocking) > 0 {
		return &BlockedError{Blockers: blocking}
	}
	intended := intendedImages(copies)
	if r.Making != nil && len(intended) > 0 {
		if err := r.Making(ctx, intended); err != nil {
			return err
		}
	}
	least, most := copySizes(copies)
	for i, c := range copies {
		if isMedium(c.Disk) {
			if err := r.copyMedium(ctx, to, c.Disk, intended[i].Bytes); err != nil {
				return err
			}
			continue
		}
		available, err := r.makeImage(ctx, to, c)
		if err != nil {
			return err
		}
		directory := path.Dir(c.Disk.Path)
		to.checkRoomIn(&f, "disks."+c.Disk.Key, available, directory, slices.DeleteFunc(slices.Clone(copies[:i+1]),
			func(other Copy) bool { return path.Dir(other.Disk.Path) != directory }))
	}
	if blocking := Blocking(f); len(blocking) > 0 {
		return &BlockedError{Blockers: blocking}
	}
	if r.copies = imageCopies(copies); len(r.copies) > 0 {
		r.state.Method = MethodBlock
		r.log.InfoContext(ctx, "disks are copied", "disks", strings.Join(diskTargets(r.copies), ","), "used",
			bytesText(least),
			"capacity", bytesText(most))
	}
	return nil
}

// makeImage makes one of them, and says how much room is left where it is.
func (r *run) makeImage(ctx context.Context, to preflight, c Copy) (available uint64, err error) {
	base := r.Options.Base(c.Disk)
	r.log.InfoContext(ctx, "making image", "disk", c.Disk.Key, "path", c.Disk.Path, "capacity", bytesText(c.Capacity),
		"base", base.Path)
	available, err = r.Target.CreateImage(ctx, libvirt.NewImage{
		Path: c.Disk.Path, Format: c.Disk.Format, CapacityBytes: c.Capacity, Backing: base.Path,
		BackingFormat: base.Format, Secret: c.Disk.Passphrase,
	})
	if errors.Is(err, libvirt.ErrExists) {
		return 0, &BlockedError{Blockers: []Blocker{to.pathOccupied(c.Disk)}}
	}
	if err == nil {
		r.images = append(r.images, c.Disk.Path)
	}
	return available, err
}

// copyMedium copies a medium, which is only read, before the guest sets out. empty is how long the file is before
// anything is copied into it, by which it is known again until then: from then on by its being noted.
func (r *run) copyMedium(ctx context.Context, to preflight, disk domain.MobileDisk, empty uint64) error {
	r.log.InfoContext(ctx, "copying", "file", disk.Path, "disk", disk.Key)
	err := r.Source.CopyFile(ctx, disk.Path, r.Target, empty, func() error {
		r.images = append(r.images, disk.Path)
		return r.noteMade(ctx, []string{disk.Path})
	}, nil)
	if errors.Is(err, libvirt.ErrExists) {
		return &BlockedError{Blockers: []Blocker{to.pathOccupied(disk)}}
	}
	return err
}

// removeImages removes what was made on the target, variables of the firmware included, once the VM is known to
// have stayed where it was and the target to have nothing of it. It returns what is left.
func (r *run) removeImages(ctx context.Context, where location, target hostView) (left []string) {
	if where != stayed || target.err != nil || target.domain != nil {
		return slices.Concat(r.images, r.nvramFiles)
	}
	left = RemoveImages(ctx, r.Target, r.images, func(image string, err error) {
		r.log.WarnContext(ctx, "image not removed", "host", r.Target.Name(), "path", image, "error", err.Error())
	})
	return append(left, RemoveNVRAM(ctx, r.Target, r.Source, r.nvramFiles, r.log)...)
}

// RemoveImages removes images from a host and returns those that are left. Why is told; one that isn't there is not.
func RemoveImages(
	ctx context.Context, on *libvirt.Host, images []string, failed func(image string, err error),
) (left []string) {
	ctx, cancel := lease.CleanUp(ctx, removalTimeout)
	defer cancel()
	for _, image := range images {
		if err := on.RemoveFile(ctx, image); err != nil {
			failed(image, err)
			left = append(left, image)
		}
	}
	return left
}

// removeSources removes the firmware's variables from the source, and the images that were copied if that is wanted, if
// the source has let go of the VM, which runs on the target. That one can't be removed is no reason to call the
// migration a failure. What was made with the VM is left to the caller, who knows what else uses it.
func (r *run) removeSources(ctx context.Context, source hostView) {
	if source.err == nil && source.domain == nil {
		RemoveNVRAM(ctx, r.Source, r.Target, r.nvramFiles, r.log)
	}
	var paths []string
	for _, c := range r.copies {
		if notOwn(c) {
			paths = append(paths, c.Disk.Path)
		}
	}
	if *r.Options.KeepSourceDisks || len(paths) == 0 {
		return
	}
	if source.err != nil || source.domain != nil {
		r.log.WarnContext(ctx, "the disks are kept at the source, which has not let go of the VM")
		return
	}
	RemoveImages(ctx, r.Source, paths, func(image string, err error) {
		r.log.WarnContext(ctx, "disk not removed", "host", r.Source.Name(), "path", image, "error", err.Error())
	})
}
