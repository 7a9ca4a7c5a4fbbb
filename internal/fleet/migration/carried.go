package migration

import (
	"context"
	"path"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// Carried is a file, or a directory with all that is in it, that a VM which is off takes along to the same path.
type Carried struct {
	// What names it in a sentence.
	What, Path string
	// Bytes is what a disk takes at the source, 0 for anything else.
	Bytes uint64
	// Disk says that it is one, Own that it was made with the VM.
	Disk, Own bool
}

// CarriedBy returns what is copied when the VM, which is off, moves from the source to the target, as far as that
// can be told without touching a host; nothing of one that runs. What blocks that is for Preflight to say.
func CarriedBy(ctx context.Context, m Machine, source, target *libvirt.Host, o Options) []Carried {
	if m.Live() {
		return nil
	}
	t := toTarget{machine: m, source: source, target: target}
	all, _ := o.belongings(m)
	sizes, err := t.diskSizes(ctx, all)
	if err != nil {
		sizes = nil // Preflight has said so.
	}
	var carried []Carried
	for _, b := range all {
		here, _ := volume(ctx, source, b.path)
		there, _ := volume(ctx, target, b.path)
		guessed := b.reason == NVRAMNotMigratable && m.Facts.NVRAMUnnamed && path.Ext(b.path) != ".fd"
		if guessed && here == nil || here != nil && there != nil && b.sameMedium(*here, *there) {
			continue
		}
		carried = append(carried, Carried{
			What: b.what, Path: b.path, Bytes: sizes[b.disk].Allocation, Disk: b.disk != "",
			Own: b.mobile.Own != nil,
		})
	}
	return carried
}
