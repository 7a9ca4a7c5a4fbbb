package migration

import (
	"context"
	"path"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// CopiedFile is a file, or a directory with its contents, that the move of a stopped VM copies to the same path.
type CopiedFile struct {
	// What describes the file in a sentence.
	What, Path string
	// Bytes is the disk's size at the source. It is 0 for anything but a disk.
	Bytes uint64
	// Capacity is the size of the disk that the guest sees.
	Capacity uint64
	// Disk says whether the file is a disk, Own whether it was made with the VM.
	Disk, Own bool
}

// CopiedFiles returns the files that a move of a stopped VM copies from the source to the target, as far as known
// without touching a host. For a running VM it returns none. CheckHosts reports what blocks the copying.
func CopiedFiles(ctx context.Context, vm VM, source, target *libvirt.Host, o Options) []CopiedFile {
	if vm.Live() {
		return nil
	}
	all, _ := o.splitLocalFiles(vm)
	sizes, err := diskSizes(ctx, source, vm, all)
	if err != nil {
		sizes = nil // CheckHosts reports this error.
	}
	var copied []CopiedFile
	for _, b := range all {
		here, _ := findVolume(ctx, source, b.path)
		there, _ := findVolume(ctx, target, b.path)
		guessed := b.reason == NVRAMNotMigratable && vm.Mobility.NVRAMUnnamed && path.Ext(b.path) != ".fd"
		if guessed && here == nil || here != nil && there != nil && b.sameMedium(*here, *there) {
			continue
		}
		copied = append(copied, CopiedFile{
			What: b.what, Path: b.path, Bytes: sizes[b.disk].Allocation, Capacity: sizes[b.disk].Capacity,
			Disk: b.disk != "", Own: b.mobile.Own != nil,
		})
	}
	return copied
}
