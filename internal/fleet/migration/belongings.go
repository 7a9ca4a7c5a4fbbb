package migration

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// variables is where libvirt's system daemon keeps the files of variables that it names itself, after the VM and
// their format.
const variables = "/var/lib/libvirt/qemu/nvram"

// tpmStates is where libvirt's system daemon keeps the state of emulated TPMs, each in a directory named by the
// VM's UUID.
const tpmStates = "/var/lib/libvirt/swtpm"

// belonging is what a VM that is off has on its host in addition to its definition, and needs wherever it starts.
type belonging struct {
	path string
	// what names it in a sentence, attribute is the path of the attribute that it is about, and reason the code of what
	// is in its way.
	what, attribute, reason string
	// disk is the disk's name within the definition, "" for anything else.
	disk     string
	readOnly bool
	// mobile is the disk itself.
	mobile domain.MobileDisk
	// tree says that it is a directory with all that is in it.
	tree bool
}

// unstarted says that its not being there means no more than that the VM has never been started.
func (b belonging) unstarted() bool { return b.disk == "" }

// belongings are the files that a VM that is off has on its host, each once.
func (m Machine) belongings() []belonging {
	var all []belonging
	for _, d := range m.Facts.Disks {
		known := slices.ContainsFunc(all, func(b belonging) bool { return b.path == d.Path })
		if d.Path == "" || d.Block || d.Shareable || known {
			continue
		}
		all = append(all, ofDisk(d))
	}
	files := []string{m.Facts.NVRAM}
	if m.Facts.NVRAMUnnamed {
		files = []string{path.Join(variables, m.Name+"_VARS.fd"), path.Join(variables, m.Name+"_VARS.qcow2")}
	}
	for _, file := range files {
		if file == "" {
			continue
		}
		all = append(all, belonging{
			path: file, what: "its firmware's variables", attribute: "firmware", reason: NVRAMNotMigratable,
		})
	}
	if m.Facts.TPM == "emulator" && m.Facts.TPMSpecial == "" {
		all = append(all, belonging{
			path: path.Join(tpmStates, m.UUID), what: "the state of its TPM", reason: TPMNotMigratable, tree: true,
		})
	}
	return all
}

func ofDisk(d domain.MobileDisk) belonging {
	return belonging{
		path: d.Path, what: fmt.Sprintf("disk %q", d.Key), attribute: "disks." + d.Key, reason: DisksNotLiveMigratable,
		disk: d.Target, readOnly: d.ReadOnly, mobile: d,
	}
}

// belongings are those of a VM that are carried to the target, and those that are declared to be there as well and
// left alone. The state of a TPM is never taken for shared: before libvirt 8.9 it goes with the definition.
func (o Options) belongings(m Machine) (carried, shared []belonging) {
	for _, b := range m.belongings() {
		declared := !b.tree && o.sharesFile(b.path) || slices.ContainsFunc(m.Facts.Disks, func(d domain.MobileDisk) bool {
			return d.Path == b.path && o.shares(d)
		})
		if declared {
			shared = append(shared, b)
		} else {
			carried = append(carried, b)
		}
	}
	return carried, shared
}

// stopped finds what a VM that is off has on its host and can't be carried along.
func (f *finding) stopped(m Machine) {
	facts := m.Facts
	if m.ManagedSave {
		f.block(ManagedSaveNotMigratable, "", "its memory was saved on its host, and would stay there",
			"Start it and move it while it runs, or drop the memory with virsh managedsave-remove.")
	}
	const remedy = "Start the VM and move it while it runs."
	if facts.NVRAMOther != "" && facts.NVRAMOther != "network" {
		f.block(NVRAMNotMigratable, "firmware", "its firmware's variables are in storage of type "+facts.NVRAMOther+
			" of its host", remedy)
	}
	if m.Session && facts.NVRAMUnnamed {
		f.block(NVRAMNotMigratable, "firmware", "where its user's libvirt keeps its firmware's variables is not known",
			remedy)
	}
	switch {
	case m.Session && facts.TPM == "emulator":
		f.block(TPMNotMigratable, "", "where its user's libvirt keeps the state of its TPM is not known", remedy)
	case facts.TPM == "external":
		f.block(TPMNotMigratable, "", "the state of its TPM is kept by a program of its host", remedy)
	case facts.TPMSpecial != "":
		f.block(TPMNotMigratable, "", "the state of its TPM is not kept as usual: "+facts.TPMSpecial, remedy)
	}
	for _, disk := range facts.Disks {
		if disk.Network || disk.Empty || disk.Shareable || disk.Path != "" && !disk.Block {
			continue
		}
		f.block(DisksNotLiveMigratable, "disks."+disk.Key, fmt.Sprintf("disk %q is %s of its host, and only files are copied",
			disk.Key, describe(disk)), "Start the VM and move it while it runs, or use network storage.")
	}
}

// belongings checks, without touching a host, whether what a VM that is off has on its host can be copied: what
// storage pools don't cover is seen only when it is tried, before anything is changed.
func (t toTarget) belongings(ctx context.Context, f *finding) {
	if t.machine.Live() {
		return
	}
	all, shared := t.options.belongings(t.machine)
	for _, b := range shared {
		t.same(ctx, f, b)
	}
	sizes, err := t.diskSizes(ctx, all)
	if err != nil {
		f.failed(DisksNotLiveMigratable, "disks", t.source, "the disks", err)
		return
	}
	need := needs{}
	for _, b := range all {
		if b.tree {
			t.tree(ctx, f, b)
			continue
		}
		here, err := volume(ctx, t.source, b.path)
		if err != nil {
			f.failed(b.reason, b.attribute, t.source, "the storage", err)
			return
		}
		there, err := volume(ctx, t.target, b.path)
		switch {
		case err != nil:
			f.failed(b.reason, b.attribute, t.target, "the storage", err)
			return
		case here != nil && !t.copyable(ctx, f, b, *here):
		case there != nil && here != nil && b.sameMedium(*here, *there):
		case there != nil && !t.machine.unfinished(b.path, *there):
			f.taken(b, t.target)
		case here != nil:
			need.add(b, weight(*here))
		default:
			need.add(b, sizes[b.disk].Allocation)
		}
	}
	t.room(ctx, f, need)
}

// diskSizes asks the source for the sizes of disks, in a pool or not.
func (t toTarget) diskSizes(ctx context.Context, all []belonging) (map[string]libvirt.BlockInfo, error) {
	var targets []string
	for _, b := range all {
		if b.disk != "" {
			targets = append(targets, b.disk)
		}
	}
	if len(targets) == 0 {
		return nil, nil
	}
	return t.source.BlockInfos(ctx, t.machine.UUID, targets)
}

// tree checks the state of a TPM, whose directory is rarely in a pool.
func (t toTarget) tree(ctx context.Context, f *finding, b belonging) {
	there, err := volume(ctx, t.target, b.path)
	switch {
	case err != nil:
		f.failed(b.reason, b.attribute, t.target, "the storage", err)
	case there != nil && !t.machine.unfinished(b.path, *there):
		f.taken(b, t.target)
	case there == nil:
		f.unseen(b, t.target)
	}
}

// room checks that what is to be copied fits.
func (t toTarget) room(ctx context.Context, f *finding, need needs) {
	for _, dir := range need.dirs() {
		available, err := t.target.Room(ctx, dir)
		switch {
		case errors.Is(err, libvirt.ErrNotFound):
			f.unseen(need[dir].first, t.target)
		case err != nil:
			f.failed(InsufficientStorage, "", t.target, "the storage", err)
		default:
			f.room(dir, need[dir].bytes, t.beforeImages(dir, available), t.target)
		}
	}
}

// copyable says whether a file can be copied: by itself, or onto the image that its disk was made from.
func (t toTarget) copyable(ctx context.Context, f *finding, b belonging, file libvirt.Volume) bool {
	if own := b.mobile.Own; file.Backing != "" && own != nil && own.Based() {
		return t.base(ctx, f, b.mobile, file.Backing)
	}
	return f.copyable(b, file)
}

// copyable says whether a file is one that can be copied by itself.
func (f *finding) copyable(b belonging, file libvirt.Volume) bool {
	const remedy = "Start the VM and move it while it runs, or use network storage."
	switch {
	case file.Backing != "":
		f.block(b.reason, b.attribute, fmt.Sprintf("%s is %s, an image on top of %s, and chains of images are not copied",
			b.what, b.path, file.Backing), "Make one image of it with qemu-img convert. Or start the VM and move it "+
			"while it runs.")
	case file.Type != "" && file.Type != "file":
		f.block(b.reason, b.attribute, fmt.Sprintf("%s is %s, which is no file but of type %s", b.what, b.path, file.Type),
			remedy)
	default:
		return true
	}
	return false
}

// sameMedium says that the target has a medium which is never written: it is used as it is.
func (b belonging) sameMedium(here, there libvirt.Volume) bool {
	return b.readOnly && here.CapacityBytes == there.CapacityBytes
}

func (f *finding) taken(b belonging, target *libvirt.Host) {
	reason := b.reason
	if b.disk != "" {
		reason = DiskPathTaken
	}
	shared := "say so (" + b.declaration() + ")."
	if b.tree {
		shared = "start the VM and move it while it runs."
	}
	f.block(reason, b.attribute, fmt.Sprintf("%s would be copied to %s on host %q, where there is such a file already, "+
		"and none is ever overwritten", b.what, b.path, target.Name()),
		"If it is of no use any more, such as a copy left from an earlier move, remove it there. If it is the same file "+
			"on a shared filesystem, "+shared)
}

func (f *finding) unseen(b belonging, target *libvirt.Host) {
	f.doubt(b.reason, b.attribute, fmt.Sprintf("%s would be copied to %s, in a directory that no storage pool of host %q "+
		"covers, so that what is there is unknown", b.what, b.path, target.Name()), "It will be seen before anything is "+
		"changed.")
}

func (f *finding) room(dir string, need, available uint64, target *libvirt.Host) {
	if need <= available {
		return
	}
	f.block(InsufficientStorage, "disks", fmt.Sprintf("%s would be copied to %s on host %q, where %s are available",
		bytesText(need), dir, target.Name(), bytesText(available)), "Free space there, or choose another host.")
}

// needs are what is to be written, by directory.
type needs map[string]need

type need struct {
	bytes uint64
	first belonging
}

func (n needs) add(b belonging, bytes uint64) {
	dir := path.Dir(b.path)
	in, ok := n[dir]
	if !ok {
		in.first = b
	}
	in.bytes += bytes
	n[dir] = in
}

func (n needs) dirs() []string {
	var dirs []string
	for dir := range n {
		dirs = append(dirs, dir)
	}
	slices.SortFunc(dirs, cmp.Compare[string])
	return dirs
}

// weight is what a copy of a file takes: holes stay holes.
func weight(file libvirt.Volume) uint64 { return min(file.AllocationBytes, file.PhysicalBytes) }
