package migration

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// checkDisks checks that the target reaches the same data, or that the disks that it doesn't reach can be copied.
func (t preflight) checkDisks(ctx context.Context, f *blockerList) { t.plannedCopies(ctx, f) }

// plannedCopies returns the disks that are copied. Storage that QEMU reaches over the network is the same from every
// host. Whether two hosts share a file or device is only known from the storage pools of both. If that remains unknown
// for a file, no harm is done: libvirt refuses an unsafe migration before it changes anything. It refuses none because
// of a block device without a cache.
func (t preflight) plannedCopies(ctx context.Context, f *blockerList) []DiskCopy {
	if !t.vm.Live() {
		return nil // For a stopped VM see checkLocalFiles.
	}
	var copies []DiskCopy
	unasked := len(t.options.declaredSharedDisks(t.vm.Mobility)) > 0 // See verifyNoDiskLeft.
	for _, disk := range t.vm.Mobility.Disks {
		if unasked && (disk.Network || disk.Block) {
			f.checkCache(disk)
		}
		if disk.Network || disk.Empty {
			continue
		}
		if disk.Volume != "" {
			t.checkPoolVolume(ctx, f, disk)
			continue
		}
		if disk.Path == "" {
			t.mayNotReach(f, disk, fmt.Sprintf("disk %q is %s, and whether the target reaches it can't be asked", disk.Key,
				describeStorage(disk)), "Make sure that it does.")
			continue
		}
		here, there, ok := t.volumesOnBoth(ctx, f, disk)
		switch {
		case !ok:
		case t.options.declaresShared(disk):
			t.checkDeclaredShared(f, disk, here, there)
		case !t.options.copiesDisk(disk) || isShared(here, there):
			t.checkReachable(ctx, f, disk, here, there)
		case t.checkImageCopy(ctx, f, disk, there):
			c := DiskCopy{Disk: disk}
			if here != nil {
				c.Used = here.AllocationBytes
			}
			copies = append(copies, c)
		}
	}
	return t.checkCopiesFit(ctx, f, t.measureDisks(ctx, f, copies))
}

// volumesOnBoth looks up the disk on both hosts.
func (t preflight) volumesOnBoth(
	ctx context.Context, f *blockerList, disk domain.MobileDisk,
) (here, there *libvirt.Volume, ok bool) {
	here, err := findVolume(ctx, t.source, disk.Path)
	if err != nil {
		f.unanswered(DisksNotLiveMigratable, "disks."+disk.Key, t.source, "the storage", err)
		return nil, nil, false
	}
	if there, err = findVolume(ctx, t.target, disk.Path); err != nil {
		f.unanswered(DisksNotLiveMigratable, "disks."+disk.Key, t.target, "the storage", err)
		return nil, nil, false
	}
	return here, there, true
}

// isShared says whether both hosts have the same file at one path: their pools are of a kind that spans hosts, or the
// file was changed at the same nanosecond.
func isShared(here, there *libvirt.Volume) bool {
	if here == nil || there == nil || here.CapacityBytes != there.CapacityBytes {
		return false
	}
	spans := here.PoolType == there.PoolType && storage.SameFiles(here.PoolType)
	return spans || here.Changed != "" && here.Changed == there.Changed
}

// checkReachable checks that the target reaches a disk that isn't copied.
func (t preflight) checkReachable(
	ctx context.Context, f *blockerList, disk domain.MobileDisk, here, there *libvirt.Volume,
) {
	what := fmt.Sprintf("disk %q is %s", disk.Key, describeStorage(disk))
	switch {
	case t.blockIfDifferent(f, disk, here, there):
	case there == nil && t.checkUnrefreshed(ctx, f, disk):
	case there == nil:
		t.mayNotReach(f, disk, fmt.Sprintf("%s, which is in no storage pool, so that whether host %q has it is unknown",
			what, t.target.Name()), "Define a storage pool for it on both hosts. If its directory is a pool already, run "+
			"\"virsh pool-refresh\" for the pool on both hosts: libvirt doesn't see a file that was made without it."+
			blockDanger(disk))
	case !disk.ReadOnly && disk.Block:
		t.mayNotReach(f, disk, fmt.Sprintf("%s; host %q has a volume of that path too, and whether it is the same storage "+
			"is unknown", what, t.target.Name()), "If it is the same device, say so: disks."+disk.Key+".shared = true."+
			blockDanger(disk))
	case !disk.ReadOnly:
		t.mayNotReach(f, disk, fmt.Sprintf("%s; host %q has a volume of that path too, and whether it is the same storage "+
			"is unknown", what, t.target.Name()), "If it is on a shared filesystem that libvirt knows as one it will move. "+
			"If it is on another one, say so: disks."+disk.Key+".shared = true, or migration_options.shared_filesystems. If it "+
			"is not shared, libvirt will refuse the migration.")
	}
}

// checkUnrefreshed says whether a disk that no storage pool of either host lists is in the directory of a pool of the
// source, and reports that.
func (t preflight) checkUnrefreshed(ctx context.Context, f *blockerList, disk domain.MobileDisk) bool {
	if t.vm.PoolAt == nil {
		return false
	}
	dir := path.Dir(disk.Path)
	here := t.vm.PoolAt(ctx, false, dir)
	if here == "" {
		return false
	}
	remedy := fmt.Sprintf("Run \"virsh pool-refresh %s\" on host %q", here, t.source.Name())
	if there := t.vm.PoolAt(ctx, true, dir); there != "" {
		remedy += fmt.Sprintf(". If the hosts share it, also \"virsh pool-refresh %s\" on host %q", there, t.target.Name())
	}
	t.mayNotReach(f, disk, fmt.Sprintf("disk %q is %s, in the directory of storage pool %q of host %q, which doesn't "+
		"list it, so that whether host %q has it is unknown", disk.Key, describeStorage(disk), here,
		t.source.Name(), t.target.Name()), remedy+"."+blockDanger(disk))
	return true
}

// blockDanger says what libvirt doesn't check about a block device; "" for other disks.
func blockDanger(disk domain.MobileDisk) string {
	if !disk.Block || disk.ReadOnly {
		return ""
	}
	return " libvirt doesn't check block devices: if the hosts have different ones at this path, the guest's data is " +
		"corrupted. Then don't move the VM while it runs."
}

// blockIfDifferent reports a blocker if pools show that the hosts have different files at a disk's path.
func (t preflight) blockIfDifferent(f *blockerList, disk domain.MobileDisk, here, there *libvirt.Volume) bool {
	at := "disks." + disk.Key
	what := fmt.Sprintf("disk %q is %s", disk.Key, describeStorage(disk))
	switch {
	case here == nil:
		return false
	case there == nil:
		f.block(DisksNotLiveMigratable, at, fmt.Sprintf("%s in pool %q of host %q, and host %q has no such volume", what,
			here.Pool, t.source.Name(), t.target.Name()), storageRemedy(disk))
	case here.CapacityBytes != there.CapacityBytes:
		f.block(DisksNotLiveMigratable, at, fmt.Sprintf("%s of %d bytes, and on host %q that path is another volume, of %d "+
			"bytes", what, here.CapacityBytes, t.target.Name(), there.CapacityBytes), storageRemedy(disk))
	default:
		return false
	}
	return true
}

func storageRemedy(disk domain.MobileDisk) string {
	switch {
	case disk.ReadOnly:
		return "Copy it to the target, or take the medium out of its drive."
	case isImage(disk):
		return "Put it on storage that both hosts reach under this path, use a network disk, or have it copied: " +
			`migration_options.copy_storage = "full".`
	default:
		return "Put it on storage that both hosts reach under this path, or use a network disk."
	}
}

// checkIgnition checks that the target has the Ignition configuration, which QEMU reads at every start.
func (t preflight) checkIgnition(ctx context.Context, f *blockerList) {
	path := t.vm.Mobility.Ignition
	if path == "" {
		return
	}
	what := "its configuration for Ignition is " + path
	if has, known := t.vm.onTarget(path); known {
		if !has {
			f.block(HypervisorNotCompatible, "ignition", fmt.Sprintf("%s, and host %q has no such file", what, t.target.Name()),
				t.copyRemedy(path)+" Or remove ignition and restart the VM: its guest reads it at the first boot only.")
		}
		return
	}
	here, err := findVolume(ctx, t.source, path)
	if err != nil {
		f.unanswered(HypervisorNotCompatible, "ignition", t.source, "the storage", err)
		return
	}
	there, err := findVolume(ctx, t.target, path)
	switch {
	case err != nil:
		f.unanswered(HypervisorNotCompatible, "ignition", t.target, "the storage", err)
	case there != nil:
	case here != nil:
		f.block(HypervisorNotCompatible, "ignition", fmt.Sprintf("%s, a file of host %q that isn't copied, and host %q has "+
			"no such volume", what, t.source.Name(), t.target.Name()), "Have it in a storage pool that the hosts share "+
			"(ignition.pool). Or remove ignition and restart the VM: its guest reads it at the first boot only.")
	default:
		f.mayBlock(HypervisorNotCompatible, "ignition",
			fmt.Sprintf("%s, which is in no storage pool, so that whether host %q "+
				"has it is unknown", what, t.target.Name()), t.copyRemedy(path))
	}
}

// checkBootFiles checks the files that QEMU opens at its start in addition to disks. A migration starts a QEMU on the
// target.
func (t preflight) checkBootFiles(ctx context.Context, f *blockerList) {
	t.checkIgnition(ctx, f)
	t.checkPaths(f)
	if !t.vm.Live() {
		return
	}
	for _, path := range t.vm.Mobility.Files {
		t.checkOpenedFile(ctx, f, "kernel", "boots from", path)
	}
	files := domain.ParseTexts(t.vm.Mobility.Values[fwCfgFiles])
	for _, path := range slices.Sorted(maps.Values(files)) {
		t.checkOpenedFile(ctx, f, fwCfgFiles, "hands its guest", path)
	}
	// It belongs to a package, and hardly any host has a storage pool of its directory. So it isn't reported if nothing is
	// known about it.
	if has, known := t.vm.onTarget(t.vm.Mobility.Loader); known && !has {
		f.block(HypervisorNotCompatible, "firmware", fmt.Sprintf("its firmware is %s, and host %q has no such file",
			t.vm.Mobility.Loader, t.target.Name()), fmt.Sprintf("Install the firmware that host %q has on host %q, under the "+
			"same path.", t.source.Name(), t.target.Name()))
	}
}

// checkPaths checks the directories and block devices without which QEMU doesn't start. A host that can't be asked for
// them is taken to have them.
func (t preflight) checkPaths(f *blockerList) {
	lacks := func(attribute, what, path string) {
		if has, known := t.vm.onTarget(path); !known || has {
			return
		}
		remedy := fmt.Sprintf("Create it on host %q, choose another host, or remove it from %s.", t.target.Name(), attribute)
		if path == domain.VhostVsock {
			remedy = domain.VsockRemedy
		}
		f.block(HostResourcesNotAvailable, attribute,
			fmt.Sprintf("host %q has no %s %q", t.target.Name(), what, path), remedy)
	}
	for _, fs := range t.vm.Mobility.Filesystems {
		lacks(fs.Attribute, "directory", fs.Source)
	}
	for _, device := range t.vm.Mobility.Devices {
		lacks(device.Attribute, device.What, device.Path)
	}
	for _, path := range t.vm.limitedDevices() {
		lacks(domain.BlkioDevices, "block device", path)
	}
}

// fwCfgFiles is the attribute for files that QEMU hands its guest.
const fwCfgFiles = "platform.fw_cfg_files"

// copyRemedy says how a user brings a file of the source to the target.
func (t preflight) copyRemedy(path string) string {
	return fmt.Sprintf("Copy %s from host %q to the same path on host %q.", path, t.source.Name(), t.target.Name())
}

// checkOpenedFile checks a file that QEMU opens.
func (t preflight) checkOpenedFile(ctx context.Context, f *blockerList, attribute, verb, path string) {
	if has, known := t.vm.onTarget(path); known {
		if !has {
			f.block(HypervisorNotCompatible, attribute, fmt.Sprintf("it %s %s, and host %q has no such file", verb, path,
				t.target.Name()), t.copyRemedy(path))
		}
		return
	}
	switch there, err := findVolume(ctx, t.target, path); {
	case err != nil:
		f.unanswered(HypervisorNotCompatible, attribute, t.target, "the storage", err)
	case there == nil:
		f.mayBlock(HypervisorNotCompatible, attribute, fmt.Sprintf("it %s %s, which is in no storage pool of host %q, "+
			"so that whether the file is there is unknown", verb, path, t.target.Name()),
			"If it isn't there: "+t.copyRemedy(path))
	}
}

// findVolume looks up a volume of a host. It returns nil if there is none.
func findVolume(ctx context.Context, h *libvirt.Host, path string) (*libvirt.Volume, error) {
	v, err := h.VolumeByPath(ctx, path)
	if errors.Is(err, libvirt.ErrNotFound) {
		return nil, nil
	}
	return v, err
}
