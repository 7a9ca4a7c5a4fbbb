package migration

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/lease"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// declaresShared says whether a disk was declared as shared, by itself or with the filesystem of its file.
func (o Options) declaresShared(disk domain.MobileDisk) bool {
	if disk.Path == "" || disk.Shared || slices.Contains(o.SharedDisks, disk.Key) {
		return disk.Path != ""
	}
	return !disk.Block && o.declaresFileShared(disk.Path)
}

// declaresFileShared says whether the filesystem of a file was declared as shared.
func (o Options) declaresFileShared(file string) bool {
	return slices.ContainsFunc(o.SharedFilesystems, func(dir string) bool { return strings.HasPrefix(file, dir+"/") })
}

// declaredSharedDisks returns the disks for which libvirt would refuse the migration if the configuration did not
// declare them as shared.
func (o Options) declaredSharedDisks(facts domain.Mobility) []domain.MobileDisk {
	return slices.DeleteFunc(slices.Clone(facts.Disks), func(disk domain.MobileDisk) bool {
		return disk.ReadOnly || disk.Block || !o.declaresShared(disk)
	})
}

// checkDeclaredShared checks a disk that is declared as shared by what the storage pools report.
func (t preflight) checkDeclaredShared(f *blockerList, disk domain.MobileDisk, here, there *libvirt.Volume) {
	if !t.blockIfDifferent(f, disk, here, there) {
		f.checkCache(disk)
	}
}

// checkCache reports a disk that is written to through its host's cache.
func (f *blockerList) checkCache(disk domain.MobileDisk) {
	if disk.ReadOnly || disk.Cache == "none" || disk.Cache == "directsync" {
		return
	}
	f.block(DisksNotLiveMigratable, "disks."+disk.Key, fmt.Sprintf("disk %q is %s, is not copied, and goes through its "+
		"host's cache, which the target doesn't see", disk.Key, describeStorage(disk)),
		`Set disks.`+disk.Key+`.cache = "none", and restart the VM.`)
}

// UnsafeRemedy says what to do if libvirt refuses a migration because the target may lack a disk (libvirt.ErrUnsafe).
const UnsafeRemedy = "If the hosts share the file, say so: disks.<key>.shared = true (with cache = \"none\"), or " +
	"migration_options.shared_filesystems. Otherwise have it in a storage pool that exists on both hosts (\"virsh " +
	"pool-refresh\" shows libvirt a new file), and have it copied: migration_options.copy_storage = \"full\". A disk " +
	"that its definition names as the volume of a pool (disks.<key>.other) isn't copied: set disks.<key>.file to its " +
	"path, and restart the VM"

// mayNotReach reports that the target may not reach a disk. libvirt refuses to migrate to a target that may lack a file
// that the guest writes to. But if a disk of the VM is declared as shared, libvirt is told not to check, so the check
// is made here.
func (t preflight) mayNotReach(f *blockerList, disk domain.MobileDisk, message, remedy string) {
	say := f.mayBlock
	if !disk.ReadOnly && !disk.Block && len(t.options.declaredSharedDisks(t.vm.Mobility)) > 0 {
		say = f.block
	}
	say(DisksNotLiveMigratable, "disks."+disk.Key, message, remedy)
}

// How long a file that one host makes on a shared filesystem may take to appear on another host, and how often to look
// for it. removeTimeout is for removing it again, also from a host that is busy: nothing else removes it.
const (
	appearTimeout  = 5 * time.Second
	appearInterval = 250 * time.Millisecond
	removeTimeout  = 30 * time.Second
)

// verifyShared tests whether the filesystems that are declared as shared are shared. If they aren't, the VM would find
// another file at the same path on the target.
func (t preflight) verifyShared(ctx context.Context) (blockerList, error) {
	var f blockerList
	tried := map[string]bool{}
	for _, b := range t.options.declaredSharedFiles(t.vm) {
		dir := path.Dir(b.path)
		if tried[dir] {
			continue
		}
		tried[dir] = true
		shared, err := probeShared(ctx, t.source, t.target, dir)
		if ctx.Err() != nil {
			return nil, cmp.Or(err, context.Cause(ctx))
		}
		switch {
		case err != nil:
			f.notShared(b, fmt.Sprintf("which can't be tried: %v", err))
		case !shared:
			f.notShared(b, fmt.Sprintf("and what host %q writes to %s doesn't appear on host %q", t.source.Name(), dir,
				t.target.Name()))
		}
	}
	return f, nil
}

// notShared reports that a file which the hosts are to share isn't shared, or that this is unknown.
func (f *blockerList) notShared(b localFile, why string) {
	remedy := "Mount it on both hosts, or say no more that they share it (" + b.declarationPath() + ")."
	if b.mobile.Shareable {
		remedy = "Mount it on both hosts. If no other virtual machine is to use it, first remove " + b.attribute +
			".shareable: then a move copies it."
	}
	f.block(b.reason, b.attribute, b.declaredText()+why, remedy)
}

// declarationPath returns the attribute in which the file may be declared as shared.
func (b localFile) declarationPath() string {
	const filesystems = "migration_options.shared_filesystems"
	if b.disk == "" {
		return filesystems
	}
	return b.attribute + ".shared, " + filesystems
}

// declaredText returns the beginning of a sentence about a file that the hosts are to share.
func (b localFile) declaredText() string {
	if b.mobile.Shareable {
		return fmt.Sprintf("%s (%s) is shareable, so that a move doesn't copy it, ", b.what, b.path)
	}
	return fmt.Sprintf("the hosts are declared to share %s (%s), ", b.what, b.path)
}

// declaredSharedFiles returns the files that the VM writes to and that libvirt wouldn't take as shared without a
// declaration.
func (o Options) declaredSharedFiles(vm VM) []localFile {
	if !vm.Live() {
		_, shared := o.splitLocalFiles(vm)
		return slices.DeleteFunc(shared, func(b localFile) bool { return b.readOnly })
	}
	var all []localFile // libvirt brings the firmware's variables to the target.
	for _, disk := range o.declaredSharedDisks(vm.Mobility) {
		all = append(all, diskFile(disk))
	}
	return all
}

// checkSharedChain checks that the target has a file that is declared as shared, and its backing chain: as far as pools
// tell, unless files are probed.
func (t preflight) checkSharedChain(ctx context.Context, f *blockerList, b localFile) {
	if b.mayBeAbsent() {
		return
	}
	var chain []string
	for next := b.path; next != "" && !slices.Contains(chain, next); {
		chain = append(chain, next)
		next = t.checkSharedImage(ctx, f, b, next)
	}
}

// checkSharedImage checks one image of the chain, and returns its backing image, "" at the end.
func (t preflight) checkSharedImage(ctx context.Context, f *blockerList, b localFile, file string) (backing string) {
	which := "which"
	if file != b.path {
		which += " is based on " + file + ", and that"
	}
	here, there, same, err := t.compareFile(ctx, file)
	switch {
	case err != nil && t.probeFiles:
		f.notShared(b, fmt.Sprintf("%s can't be compared: %v", which, err))
	case err != nil:
		f.unanswered(b.reason, b.attribute, t.target, "the storage", err)
	case same:
		return here.Backing
	case here != nil && there != nil:
		f.notShared(b,
			fmt.Sprintf("%s is another file on host %q, %s", which, t.target.Name(), describeDifference(*here, *there)))
	case t.probeFiles && here == nil:
		f.notShared(b, fmt.Sprintf("%s host %q does not have", which, t.source.Name()))
	case t.probeFiles:
		f.notShared(b, fmt.Sprintf("%s host %q does not have", which, t.target.Name()))
	case here != nil && t.hasPoolOf(ctx, path.Dir(file)):
		f.mayBlock(b.reason, b.attribute, fmt.Sprintf("%s%s the storage pools of host %q don't show", b.declaredText(), which,
			t.target.Name()), "Refresh the pool there. It is tried before anything is changed.")
	}
	return ""
}

// verifyNoDiskLeft checks what libvirt doesn't check for a VM with shared disks: the target must reach every disk that
// the guest writes to, and no written data may remain in the source's cache.
func (r *run) verifyNoDiskLeft() error {
	facts := r.VM.Mobility
	if len(r.Options.declaredSharedDisks(facts)) == 0 {
		return nil
	}
	var f blockerList
	copied := diskTargets(r.copies)
	for _, disk := range facts.Disks {
		switch {
		case disk.Empty, disk.ReadOnly, slices.Contains(copied, disk.Target):
		case disk.Network, disk.Block, r.Options.declaresShared(disk):
			f.checkCache(disk)
		default:
			f.block(DisksNotLiveMigratable, "disks."+disk.Key, fmt.Sprintf("disk %q is %s, which is neither copied nor "+
				"declared to be shared, as others of the VM are", disk.Key, describeStorage(disk)),
				"Set disks."+disk.Key+".shared = true if the hosts share it, or have it copied.")
		}
	}
	if len(f) > 0 {
		return &BlockedError{Blockers: f}
	}
	return nil
}

// probeShared says whether a file that the source makes in a directory appears on the target. It removes the file
// again.
func probeShared(ctx context.Context, source, target *libvirt.Host, dir string) (_ bool, err error) {
	probe := path.Join(dir, "virtfleet-"+rand.Text())
	if _, err := source.CreateImage(ctx, libvirt.NewImage{Path: probe, Format: "raw"}); err != nil {
		return false, err
	}
	defer func() {
		removing, cancel := lease.CleanupContext(ctx, removeTimeout)
		defer cancel()
		err = errors.Join(err, source.RemoveFile(removing, probe))
	}()
	deadline := time.Now().Add(appearTimeout)
	ticker := time.NewTicker(appearInterval)
	defer ticker.Stop()
	for {
		there, err := target.FileIfThere(ctx, probe)
		if err != nil || there != nil || time.Now().After(deadline) {
			return there != nil, err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
}
