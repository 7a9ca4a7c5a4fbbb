package migration

import (
	"context"
	"path"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// CopiedFile is a file or a directory with all that is in it that a move of a VM which is off copies to the same path.
type CopiedFile struct {
	// What names it in a sentence.
	What, Path string
	// Bytes is what a disk takes at the source, 0 for anything else.
	Bytes uint64
	// Disk says that it is one, Own that it was made with the VM.
	Disk, Own bool
}

// CopiedFiles returns what is copied when the VM, which is off, moves from the source to the target, as far as that
// can be told without touching a host; nothing of one that runs. What blocks that is for Preflight to say.
func CopiedFiles(ctx context.Context, vm VM, source, target *libvirt.Host, o Options) []CopiedFile {
	if vm.Live() {
		return nil
	}
	t := preflight{vm: vm, source: source, target: target}
	all, _ := o.splitLocalFiles(vm)
	sizes, err := t.diskSizes(ctx, all)
	if err != nil {
		sizes = nil // CheckHosts has said so.
	}
	var copied []CopiedFile
	for _, b := range all {
		here, _ := findVolume(ctx, source, b.path)
		there, _ := findVolume(ctx, target, b.path)
		guessed := b.reason == NVRAMNotMigratable && vm.Facts.NVRAMUnnamed && path.Ext(b.path) != ".fd"
		if guessed && here == nil || here != nil && there != nil && b.sameMedium(*here, *there) {
			continue
		}
		copied = append(copied, CopiedFile{
			What: b.what, Path: b.path, Bytes: sizes[b.disk].Allocation, Disk: b.disk != "",
			Own: b.mobile.Own != nil,
		})
	}
	return copied
}
