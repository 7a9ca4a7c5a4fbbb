package migration

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/lease"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// makeImages makes the images on the target that the disks are copied into. They must not exist yet. r.images lists the
// images that it made, even if it fails.
func (r *run) makeImages(ctx context.Context) error {
	if !r.Options.copiesAnyDisk(r.VM.Mobility) {
		return nil
	}
	to := r.probingPreflight()
	var f blockerList
	copies := to.plannedCopies(ctx, &f)
	if blocking := Blocking(f); len(blocking) > 0 {
		return &BlockedError{Blockers: blocking}
	}
	intended := intendedImages(copies)
	if r.Creating != nil && len(intended) > 0 {
		if err := r.Creating(ctx, intended); err != nil {
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
		to.checkCopiesFitIn(ctx, &f, "disks."+c.Disk.Key, available, directory, slices.DeleteFunc(slices.Clone(copies[:i+1]),
			func(other DiskCopy) bool { return path.Dir(other.Disk.Path) != directory }))
	}
	if blocking := Blocking(f); len(blocking) > 0 {
		return &BlockedError{Blockers: blocking}
	}
	if r.copies = imageCopies(copies); len(r.copies) > 0 {
		r.state.Method = MethodBlock
		r.log.InfoContext(ctx, "disks are copied", "disks", strings.Join(diskTargets(r.copies), ","), "used",
			domain.FormatSize(least),
			"capacity", domain.FormatSize(most))
	}
	return nil
}

// makeImage makes one image, and returns how much room is left in its directory.
func (r *run) makeImage(ctx context.Context, to preflight, c DiskCopy) (available uint64, err error) {
	base := r.Options.Base(c.Disk)
	r.log.InfoContext(ctx, "creating image", "disk", c.Disk.Key, "path", c.Disk.Path,
		"capacity", domain.FormatSize(c.Capacity),
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
	} else {
		r.noteUnanswered(ctx, c.Disk.Path, err)
	}
	return available, err
}

// noteUnanswered notes that a file may be created after its creation has failed with that error: libvirt carries out a
// call although its caller no longer waits.
func (r *run) noteUnanswered(ctx context.Context, file string, err error) {
	if ctx.Err() != nil || errors.Is(err, libvirt.ErrUnreachable) || errors.Is(err, libvirt.ErrBusy) {
		r.unanswered = append(r.unanswered, file)
	}
}

// copyMedium copies a read-only medium before the migration begins. empty is the length of the file before anything is
// copied into it. Until the file is recorded as copied, a later run recognizes it by this length.
func (r *run) copyMedium(ctx context.Context, to preflight, disk domain.MobileDisk, empty uint64) error {
	r.log.InfoContext(ctx, "copying", "file", disk.Path, "disk", disk.Key)
	err := r.Source.CopyFile(ctx, disk.Path, r.Target, empty, func() error {
		r.images = append(r.images, disk.Path)
		return r.noteCreated(ctx, []string{disk.Path})
	}, nil)
	if errors.Is(err, libvirt.ErrExists) {
		return &BlockedError{Blockers: []Blocker{to.pathOccupied(disk)}}
	}
	if err != nil && !slices.Contains(r.images, disk.Path) {
		r.noteUnanswered(ctx, disk.Path, err)
	}
	return err
}

// removeImages removes the files that were made on the target, the firmware's variables included, once the VM is known
// to have stayed at its source and the target has nothing of the VM. It returns the files that remain.
func (r *run) removeImages(ctx context.Context, where location, target hostView) (left []string) {
	if where != stayed || target.err != nil || target.domain != nil {
		return slices.Concat(r.images, r.nvramFiles)
	}
	left = RemoveImages(ctx, r.Target, r.images, func(image string, err error) {
		r.log.WarnContext(ctx, "image not removed", "host", r.Target.Name(), "path", image, "error", err.Error())
	})
	return append(left, RemoveNVRAM(ctx, r.Target, r.Source, r.nvramFiles, r.log)...)
}

// RemoveImages removes images from a host, and returns those that remain. It logs why. An image that doesn't exist is
// not reported.
func RemoveImages(
	ctx context.Context, on *libvirt.Host, images []string, failed func(image string, err error),
) (left []string) {
	ctx, cancel := lease.CleanupContext(ctx, removalTimeout)
	defer cancel()
	for _, image := range images {
		if err := on.RemoveFile(ctx, image); err != nil {
			failed(image, err)
			left = append(left, image)
		}
	}
	return left
}

// removeVariables removes the firmware's variables from the source, once the VM runs on the target and its domain on
// the source is gone. The disks there are left to the caller, who knows what else uses them.
func (r *run) removeVariables(ctx context.Context, source hostView) {
	if source.err == nil && source.domain == nil {
		RemoveNVRAM(ctx, r.Source, r.Target, r.nvramFiles, r.log)
	}
}
