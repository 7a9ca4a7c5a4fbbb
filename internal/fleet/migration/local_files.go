package migration

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// nvramDir is where libvirt's system daemon keeps the files of firmware variables that it names itself, after the VM
// and their format.
const nvramDir = "/var/lib/libvirt/qemu/nvram"

// localFile is a file or directory that a stopped VM has on its host in addition to its definition, and requires
// wherever it starts.
type localFile struct {
	path string
	// what describes the file in a sentence. attribute is the path of its attribute. reason is the code of a blocker about
	// it.
	what, attribute, reason string
	// disk is the disk's name within the definition, "" for anything else.
	disk     string
	readOnly bool
	// mobile is the disk itself.
	mobile domain.MobileDisk
	// isDirectory says whether this is a directory, which is copied with its contents.
	isDirectory bool
}

// mayBeAbsent says whether the file doesn't exist before the VM is first started.
func (b localFile) mayBeAbsent() bool { return b.mobile.Path == "" }

// localFiles returns the files that a stopped VM has on its host, each once.
func (vm VM) localFiles() []localFile {
	var all []localFile
	for _, d := range vm.Mobility.Disks {
		known := slices.ContainsFunc(all, func(b localFile) bool { return b.path == d.Path })
		if d.Path == "" || d.Block || known {
			continue
		}
		all = append(all, diskFile(d))
	}
	files := []string{vm.Mobility.NVRAM}
	if vm.Mobility.NVRAMUnnamed {
		files = []string{path.Join(nvramDir, vm.Name+"_VARS.fd"), path.Join(nvramDir, vm.Name+"_VARS.qcow2")}
	}
	for _, file := range files {
		if file == "" {
			continue
		}
		all = append(all, localFile{
			path: file, what: "its firmware's variables", attribute: "firmware", reason: NVRAMNotMigratable,
		})
	}
	if vm.Mobility.TPM == "emulator" && vm.Mobility.TPMSpecial == "" {
		all = append(all, localFile{
			path: domain.TPMState(vm.UUID), what: "the state of its TPM", reason: TPMNotMigratable, isDirectory: true,
		})
	}
	return all
}

func diskFile(d domain.MobileDisk) localFile {
	return localFile{
		path: d.Path, what: fmt.Sprintf("disk %q", d.Key), attribute: "disks." + d.Key, reason: DisksNotLiveMigratable,
		disk: d.Target, readOnly: d.ReadOnly, mobile: d,
	}
}

// splitLocalFiles returns the VM's files that are copied to the target, and the files that are left alone because the
// hosts are to share them: those that are declared as shared, and those that other VMs may write to, of which a copy
// would be another disk. The state of a TPM is never taken as shared: before libvirt 8.9 it is removed with the
// definition.
func (o Options) splitLocalFiles(vm VM) (copied, shared []localFile) {
	for _, b := range vm.localFiles() {
		disk := slices.ContainsFunc(vm.Mobility.Disks, func(d domain.MobileDisk) bool {
			return d.Path == b.path && (o.declaresShared(d) || d.Shareable && !d.ReadOnly)
		})
		declared := disk || !b.isDirectory && o.declaresFileShared(b.path)
		if declared {
			shared = append(shared, b)
		} else {
			copied = append(copied, b)
		}
	}
	return copied, shared
}

// checkPersistentMemory finds memory of a stopped VM whose content would stay behind.
func (t preflight) checkPersistentMemory(f *blockerList) {
	for _, memory := range t.vm.Mobility.PersistentMemory {
		if !t.options.declaresFileShared(memory.Name) {
			f.block(DisksNotLiveMigratable, memory.Attribute, fmt.Sprintf("it has persistent memory in %q of its host, which "+
				"isn't copied", memory.Name), "Start the VM and move it while it runs, or declare in "+
				"migration_options.shared_filesystems that the hosts share the file.")
		}
	}
}

// checkLocalFiles checks, without touching a host, whether the files that a stopped VM has on its host can be copied.
// Files outside of storage pools are checked only when the move begins, before anything is changed.
func (t preflight) checkLocalFiles(ctx context.Context, f *blockerList) {
	if t.vm.Live() {
		return
	}
	t.checkPersistentMemory(f)
	all, shared := t.options.splitLocalFiles(t.vm)
	for _, b := range shared {
		t.checkSharedChain(ctx, f, b)
	}
	sizes, err := diskSizes(ctx, t.source, t.vm, all)
	if err != nil {
		f.unanswered(DisksNotLiveMigratable, "disks", t.source, "the disks", err)
		return
	}
	need := spaceNeeds{}
	for _, b := range all {
		if b.isDirectory {
			t.checkTPMState(ctx, f, b)
			continue
		}
		here, err := findVolume(ctx, t.source, b.path)
		if err != nil {
			f.unanswered(b.reason, b.attribute, t.source, "the storage", err)
			return
		}
		there, err := findVolume(ctx, t.target, b.path)
		switch {
		case err != nil:
			f.unanswered(b.reason, b.attribute, t.target, "the storage", err)
			return
		case here != nil && !t.checkOfflineFile(ctx, f, b, *here):
		case there != nil && here != nil && b.sameMedium(*here, *there):
		case there != nil && !t.vm.leftByEarlierAttempt(b.path, *there):
			at := isThere
			if here == nil {
				at = t.vm.sourceHas(ctx, b.path)
			}
			t.pathTaken(f, b, at)
		case here != nil:
			need.add(b, copySize(*here))
		case t.checkUnlistedFile(f, b):
			need.add(b, sizes[b.disk].Allocation)
		}
	}
	t.checkLocalFilesFit(ctx, f, need)
}

// diskSizes asks the source for the sizes of disks, whether in a pool or not.
func diskSizes(
	ctx context.Context, source *libvirt.Host, vm VM, all []localFile,
) (map[string]libvirt.BlockInfo, error) {
	var targets []string
	for _, b := range all {
		if b.disk != "" {
			targets = append(targets, b.disk)
		}
	}
	if len(targets) == 0 {
		return nil, nil
	}
	return source.BlockInfos(ctx, vm.UUID, targets)
}

// checkTPMState checks the state of a TPM, whose directory is rarely in a pool.
func (t preflight) checkTPMState(ctx context.Context, f *blockerList, b localFile) {
	there, err := findVolume(ctx, t.target, b.path)
	switch {
	case err != nil:
		f.unanswered(b.reason, b.attribute, t.target, "the storage", err)
	case there != nil && !t.vm.leftByEarlierAttempt(b.path, *there):
		t.pathTaken(f, b, t.vm.sourceHas(ctx, b.path))
	case there == nil:
		f.pathUnverified(b, t.target)
	}
}

// checkLocalFilesFit checks that the target has room for the files.
func (t preflight) checkLocalFilesFit(ctx context.Context, f *blockerList, need spaceNeeds) {
	for _, dir := range need.dirs() {
		available, err := t.target.FreeSpace(ctx, dir)
		switch {
		case errors.Is(err, libvirt.ErrNotFound):
			f.pathUnverified(need[dir].first, t.target)
		case err != nil:
			f.unanswered(InsufficientStorage, "", t.target, "the storage", err)
		default:
			t.checkFreeSpace(ctx, f, dir, need[dir].bytes, t.spaceAfterImages(dir, available))
		}
	}
}

// checkOfflineFile says whether a file can be copied: by itself, or onto the image that its disk was made from.
func (t preflight) checkOfflineFile(ctx context.Context, f *blockerList, b localFile, file libvirt.Volume) bool {
	if own := b.mobile.Own; file.Backing != "" && own != nil && own.Based() {
		return t.checkBackingImage(ctx, f, b.mobile, file.Backing)
	}
	return f.checkPlainFile(b, file)
}

// checkUnlistedFile says whether a file that is in no storage pool of the source can be copied, as far as known.
func (t preflight) checkUnlistedFile(f *blockerList, b localFile) bool {
	own, chain := b.mobile.Own, b.mobile.Backing
	switch {
	case b.mobile.Format != "qcow2", own != nil && own.Based():
	case len(chain) > 0:
		return f.checkPlainFile(b, libvirt.Volume{Backing: cmp.Or(chain[0].Path, "another one")})
	case !t.vm.ChainsKnown:
		f.mayBlock(b.reason, b.attribute, fmt.Sprintf("%s is %s, which no storage pool of host %q shows, so that whether it "+
			"is an image on top of another one is unknown", b.what, b.path, t.source.Name()), "It is seen before anything "+
			"is copied.")
	}
	return true
}

// checkPlainFile says whether a file can be copied by itself.
func (f *blockerList) checkPlainFile(b localFile, file libvirt.Volume) bool {
	const remedy = "Start the VM and move it while it runs, or use network storage."
	switch {
	case file.Backing != "":
		f.block(b.reason, b.attribute, fmt.Sprintf("%s is %s, an image on top of %s, and chains of images are not copied",
			b.what, b.path, file.Backing), "Make one image of it with qemu-img convert. Or start the VM and move it "+
			"while it runs: if its disks are on no shared storage, with copy_storage = \"full\" in migration_options.")
	case file.Type != "" && file.Type != "file":
		f.block(b.reason, b.attribute, fmt.Sprintf("%s is %s, which is no file but of type %s", b.what, b.path, file.Type),
			remedy)
	default:
		return true
	}
	return false
}

// sameMedium says whether the target already has a read-only medium of the same format and sizes, which is then used. A
// move compares their beginnings before.
func (b localFile) sameMedium(here, there libvirt.Volume) bool {
	return b.readOnly && dimensionsOf(here) == dimensionsOf(there)
}

// presence says whether a host has a file.
type presence int

const (
	presenceUnknown presence = iota
	isThere
	isAbsent
)

// sourceHas asks the source for a file that none of its storage pools lists.
func (vm VM) sourceHas(ctx context.Context, file string) presence {
	if vm.SourceFiles == nil {
		return presenceUnknown
	}
	switch has, known := vm.SourceFiles(ctx, []string{file})[file]; {
	case !known:
		return presenceUnknown
	case has:
		return isThere
	default:
		return isAbsent
	}
}

// pathTaken says that the target has the file that would be copied there. Only if the source has it too, the one on the
// target may be of no use: otherwise it may be the only one that the VM has, as after its definition alone was carried
// to another host.
func (t preflight) pathTaken(f *blockerList, b localFile, source presence) {
	reason := b.reason
	if b.disk != "" {
		reason = DiskPathTaken
	}
	if source == isAbsent {
		f.block(reason, b.attribute, fmt.Sprintf("%s is %s, which host %q lacks and host %q has, perhaps as the only copy",
			b.what, b.path, t.source.Name(), t.target.Name()), t.remedyOfOnlyCopy())
		return
	}
	remedy := "If it is of no use any more, such as a copy left from an earlier move, remove it there. If it is the " +
		"same file on a shared filesystem, "
	if source == presenceUnknown {
		remedy = fmt.Sprintf("Find out whether host %q has the file too: if not, the one on host %q may be the VM's only "+
			"copy, and must stay. If it is the same file on a shared filesystem, ", t.source.Name(), t.target.Name())
	}
	if b.isDirectory {
		remedy += "start the VM and move it while it runs."
	} else {
		remedy += "say so (" + b.declarationPath() + ")."
	}
	f.block(reason, b.attribute, fmt.Sprintf("%s would be copied to %s on host %q, where there is such a file already, "+
		"and none is ever overwritten", b.what, b.path, t.target.Name()), remedy)
}

// remedyOfOnlyCopy is what to do about a VM whose files are only on the target.
func (t preflight) remedyOfOnlyCopy() string {
	return fmt.Sprintf("Don't remove it. To have the VM where the file is, move only its definition: \"virsh dumpxml "+
		"--inactive --security-info %[1]s >vm.xml\" and \"virsh undefine --keep-nvram --keep-tpm %[1]s\" on host %[2]q, "+
		"then \"virsh define vm.xml\" on host %[3]q. Or copy the file to host %[2]q.",
		t.vm.UUID, t.source.Name(), t.target.Name())
}

func (f *blockerList) pathUnverified(b localFile, target *libvirt.Host) {
	f.mayBlock(b.reason, b.attribute,
		fmt.Sprintf("%s would be copied to %s, in a directory that no storage pool of host %q "+
			"covers, so that what is there is unknown", b.what, b.path, target.Name()), "It will be seen before anything is "+
			"changed.")
}

func (t preflight) checkFreeSpace(ctx context.Context, f *blockerList, dir string, need, available uint64) {
	if need <= available {
		return
	}
	f.block(InsufficientStorage, "disks", fmt.Sprintf("%s would be copied to %s on host %q, where %s are available",
		domain.FormatSize(need), dir, t.target.Name(), domain.FormatSize(available)), t.freeSpaceRemedy(ctx, dir))
}

func (t preflight) freeSpaceRemedy(ctx context.Context, dir string) string {
	pool := ""
	if t.vm.PoolAt != nil {
		pool = t.vm.PoolAt(ctx, true, dir)
	}
	return FreeSpaceRemedy(pool, t.target.Name())
}

// FreeSpaceRemedy says what to do about a directory of a host that has too little space. libvirt measures it when it
// refreshes the storage pool, whose name is "" if it is unknown.
func FreeSpaceRemedy(pool, host string) string {
	return fmt.Sprintf("Free space there, or choose another host. libvirt measures the space when it reads the storage "+
		"pool: if it changed without libvirt, run \"virsh pool-refresh %s\" on host %q.", cmp.Or(pool, "<pool>"), host)
}

// spaceNeeds holds the sizes to be written, by directory.
type spaceNeeds map[string]spaceNeed

type spaceNeed struct {
	bytes uint64
	first localFile
}

func (n spaceNeeds) add(b localFile, bytes uint64) {
	dir := path.Dir(b.path)
	in, ok := n[dir]
	if !ok {
		in.first = b
	}
	in.bytes += bytes
	n[dir] = in
}

func (n spaceNeeds) dirs() []string { return slices.Sorted(maps.Keys(n)) }

// copySize returns the size of a file's copy in bytes: sparse files stay sparse.
func copySize(file libvirt.Volume) uint64 { return min(file.AllocationBytes, file.PhysicalBytes) }
