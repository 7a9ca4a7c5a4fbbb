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
func Copies(ctx context.Context, m Machine, source, target *libvirt.Host, o Options) []Copy {
	var f finding
	if !o.copiesOf(m.Facts) {
		return nil
	}
	return toTarget{machine: m, source: source, target: target, options: o.WithDefaults()}.storage(ctx, &f)
}

// MethodTo says how the VM would move from the source to the target: one of the methods.
func MethodTo(ctx context.Context, m Machine, source, target *libvirt.Host, o Options) string {
	switch {
	case !m.Live():
		return MethodCold
	case len(inImages(Copies(ctx, m, source, target, o))) > 0:
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

// inImages are the copies that the hypervisor makes while the guest writes to the disks.
func inImages(copies []Copy) []Copy {
	return slices.DeleteFunc(slices.Clone(copies), func(c Copy) bool { return isMedium(c.Disk) })
}

// copiesStorage says that the options have disks copied which only the source has. Those that were made with the VM are
// copied without being told.
func (o Options) copiesStorage() bool {
	return o.CopyStorage == CopyFull || o.CopyStorage == CopyIncremental
}

// copiesOf says whether any of the VM's disks may be copied.
func (o Options) copiesOf(facts domain.Mobility) bool {
	return slices.ContainsFunc(facts.Disks, o.copies)
}

// copies says that the disk is copied unless both hosts reach it.
func (o Options) copies(disk domain.MobileDisk) bool {
	return isMedium(disk) || isImage(disk) && (disk.Own != nil || o.copiesStorage())
}

// incremental says that of the disk's backing chain only the topmost image is copied.
func (o Options) incremental(disk domain.MobileDisk) bool {
	if disk.Own != nil {
		return disk.Own.Based()
	}
	return o.CopyStorage == CopyIncremental
}

// incrementally chooses between libvirt's two ways, of which a migration has one for all its disks: copying the topmost
// images, or all that the guest sees. The latter is right on any base, and copies more.
func (o Options) incrementally(copies []Copy) bool {
	topmost := false
	for _, c := range copies {
		if !o.incremental(c.Disk) && len(c.Disk.Backing) > 0 {
			return false
		}
		topmost = topmost || o.incremental(c.Disk)
	}
	return topmost
}

// Base is what the copy of a disk is based on, on the target as at the source; its path is "" where that is nothing.
func (o Options) Base(disk domain.MobileDisk) domain.BackingImage {
	if !o.incremental(disk) || len(disk.Backing) == 0 {
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
		if isImage(disk) && !o.copies(disk) && !o.shares(disk) {
			staying = append(staying, disk.Key)
		}
	}
	return staying
}

// copiable finds what blocks copying a disk.
func (t toTarget) copiable(ctx context.Context, f *finding, disk domain.MobileDisk, there *libvirt.Volume) bool {
	at := "disks." + disk.Key
	switch {
	case there != nil && !t.machine.unfinished(disk.Path, *there):
		*f = append(*f, t.occupied(disk))
	case isMedium(disk):
		return true
	case disk.Encrypted:
		f.block(DisksNotLiveMigratable, at, fmt.Sprintf("disk %q is %s, which is encrypted by QEMU: its copy would not be",
			disk.Key, describe(disk)), "Put it on storage that both hosts reach under this path, or encrypt it in the guest.")
	case !slices.Contains([]string{"raw", "qcow2"}, disk.Format):
		f.block(DisksNotLiveMigratable, at, fmt.Sprintf("disk %q is %s of format %q, and only raw and qcow2 are copied",
			disk.Key, describe(disk), disk.Format), "Put it on storage that both hosts reach under this path.")
	default:
		return t.based(ctx, f, disk)
	}
	return false
}

// occupied says that the target has another file where the disk would be copied to.
func (t toTarget) occupied(disk domain.MobileDisk) Blocker {
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

// measure finds out how large the disks are.
func (t toTarget) measure(ctx context.Context, f *finding, copies []Copy) []Copy {
	if len(copies) == 0 {
		return nil
	}
	infos, err := t.source.BlockInfos(ctx, t.machine.UUID, targets(copies))
	if err != nil {
		f.failed(DisksNotLiveMigratable, "disks", t.source, "the size of the disks", err)
		return copies
	}
	for i := range copies {
		c := &copies[i]
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

// targets are the disks' names for libvirt.
func targets(copies []Copy) []string {
	names := make([]string, len(copies))
	for i, c := range copies {
		names[i] = c.Disk.Target
	}
	return names
}

// sizes is how much room the disks take at least, and at most.
func sizes(copies []Copy) (least, most uint64) {
	for _, c := range copies {
		least += c.Used
		most += c.Capacity
	}
	return least, most
}

// roomFor checks that the target has room for the disks.
func (t toTarget) roomFor(ctx context.Context, f *finding, copies []Copy) []Copy {
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
			f.doubt(InsufficientStorage, at, fmt.Sprintf("host %q has no storage pool of directory %s, so that whether there "+
				"is such a directory, room in it and no file of the disk's name is unknown", t.target.Name(), d),
				"Define a storage pool for it. Without one it is seen before anything is copied.")
		case err != nil:
			f.failed(InsufficientStorage, at, t.target, "the storage pool of "+d, err)
		default:
			t.roomIn(f, at, t.beforeImages(d, available), d, byDirectory[d])
		}
	}
	return copies
}

// beforeImages is what is left of a directory's room once the images are there that are brought before.
func (t toTarget) beforeImages(directory string, available uint64) uint64 {
	for file, bytes := range t.machine.Brings {
		if path.Dir(file) == directory {
			available -= min(available, bytes)
		}
	}
	return available
}

func notOwn(c Copy) bool { return c.Disk.Own == nil }

// roomIn compares what the disks take with what is there.
func (t toTarget) roomIn(f *finding, at string, available uint64, directory string, copies []Copy) {
	least, most := sizes(copies)
	const remedy = "Make room there."
	switch {
	case available < least:
		f.block(InsufficientStorage, at, fmt.Sprintf("the disks take %s at least, and %s of host %q has room for %s",
			bytesText(least), directory, t.target.Name(), bytesText(available)), remedy)
	case available < most:
		f.doubt(InsufficientStorage, at, fmt.Sprintf("the disks may take up to %s, and %s of host %q has room for %s",
			bytesText(most), directory, t.target.Name(), bytesText(available)), remedy)
	}
}

// removalTimeout bounds removing images.
const removalTimeout = 2 * time.Minute

// makeImages makes the images on the target that the disks are copied into, which must not be there yet. What it made
// is in r.images, whether it fails or not.
func (r *run) makeImages(ctx context.Context) error {
	if !r.Options.copiesOf(r.Machine.Facts) {
		return nil
	}
	to := r.closely()
	var f finding
	copies := to.storage(ctx, &f)
	if blocking := Blocking(f); len(blocking) > 0 {
		return &BlockedError{Blockers: blocking}
	}
	least, most := sizes(copies)
	for i, c := range copies {
		if isMedium(c.Disk) {
			if err := r.carry(ctx, to, c.Disk); err != nil {
				return err
			}
			continue
		}
		available, err := r.makeImage(ctx, to, c)
		if err != nil {
			return err
		}
		directory := path.Dir(c.Disk.Path)
		to.roomIn(&f, "disks."+c.Disk.Key, available, directory, slices.DeleteFunc(slices.Clone(copies[:i+1]),
			func(other Copy) bool { return path.Dir(other.Disk.Path) != directory }))
	}
	if blocking := Blocking(f); len(blocking) > 0 {
		return &BlockedError{Blockers: blocking}
	}
	if r.copies = inImages(copies); len(r.copies) > 0 {
		r.state.Method = MethodBlock
		r.log.InfoContext(ctx, "disks are copied", "disks", strings.Join(targets(r.copies), ","), "used", bytesText(least),
			"capacity", bytesText(most))
	}
	return nil
}

// makeImage makes one of them, and says how much room is left where it is.
func (r *run) makeImage(ctx context.Context, to toTarget, c Copy) (available uint64, err error) {
	base := r.Options.Base(c.Disk)
	r.log.InfoContext(ctx, "making image", "disk", c.Disk.Key, "path", c.Disk.Path, "capacity", bytesText(c.Capacity),
		"base", base.Path)
	available, err = r.Target.CreateImage(ctx, libvirt.NewImage{
		Path: c.Disk.Path, Format: c.Disk.Format, CapacityBytes: c.Capacity, Backing: base.Path,
		BackingFormat: base.Format,
	})
	if errors.Is(err, libvirt.ErrExists) {
		return 0, &BlockedError{Blockers: []Blocker{to.occupied(c.Disk)}}
	}
	if err == nil {
		r.images = append(r.images, c.Disk.Path)
	}
	return available, err
}

// carry copies a medium, which is only read, before the guest sets out.
func (r *run) carry(ctx context.Context, to toTarget, disk domain.MobileDisk) error {
	r.log.InfoContext(ctx, "copying", "file", disk.Path, "disk", disk.Key)
	err := r.Source.CopyFile(ctx, disk.Path, r.Target, 0, func() error {
		r.images = append(r.images, disk.Path)
		return nil
	}, nil)
	if errors.Is(err, libvirt.ErrExists) {
		return &BlockedError{Blockers: []Blocker{to.occupied(disk)}}
	}
	return err
}

// removeImages removes what was made on the target, variables of the firmware included, once the VM is known to
// have stayed where it was and the target to have nothing of it. It returns what is left.
func (r *run) removeImages(ctx context.Context, where place, target sight) (left []string) {
	if where != stayed || target.err != nil || target.domain != nil {
		return slices.Concat(r.images, r.variables)
	}
	left = RemoveImages(ctx, r.Target, r.images, func(image string, err error) {
		r.log.WarnContext(ctx, "image not removed", "host", r.Target.Name(), "path", image, "error", err.Error())
	})
	return append(left, RemoveVariables(ctx, r.Target, r.Source, r.variables, r.log)...)
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
func (r *run) removeSources(ctx context.Context, source sight) {
	if source.err == nil && source.domain == nil {
		RemoveVariables(ctx, r.Source, r.Target, r.variables, r.log)
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
