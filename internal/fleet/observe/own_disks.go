package observe

import (
	"context"
	"slices"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
)

// NoteReplaced notes in which own disks' places a stopped VM has files that aren't based on the volumes of these disks,
// and where that is unknown. libvirt doesn't say what the file of a VM that is off is based on: it may be the overlay
// of a snapshot, or any file that a user has put into the definition. Hosts are asked only about such files.
func (ob *Observer) NoteReplaced(ctx context.Context, vm *inventory.VM) {
	if vm.Active || vm.PersistentSpec == nil {
		return
	}

	for key, o := range vm.Metadata.OwnDisks {
		disk := vm.PersistentSpec.Disks[key]
		if disk.Source.File == "" || vm.HasFile(o.Path) || o.Creating || o.Removing || key == domain.MediumKey {
			continue
		}

		based, known := ob.isBasedOn(ctx, vm, disk, o.Path)
		if !known {
			snapshots, err := vm.On.Conn.Snapshots(ctx, vm.UUID)
			based = err != nil || len(snapshots) > 0 // Probably.
		}

		vm.Replaced = append(vm.Replaced, inventory.ReplacedDisk{Key: key, Based: based, Known: known})
	}
}

// isBasedOn reports whether an image is based on a file, and whether that is known.
func (ob *Observer) isBasedOn(
	ctx context.Context, vm *inventory.VM, disk domain.Disk, base string,
) (based, known bool) {
	if slices.ContainsFunc(disk.Backing, func(b domain.DiskSource) bool { return b.Name() == base }) {
		return true, true
	}

	file := disk.Source.File

	for range longestChain {
		header, err := vm.On.Conn.ImageHeader(ctx, file)

		switch {
		case err != nil:
			return false, false
		case !header.QCOW2 || header.Backing == "":
			return false, true
		case header.BackingPath(file) == "":
			return false, false // Only QEMU reaches it.
		}

		if file = header.BackingPath(file); file == base {
			return true, true
		}
	}

	return false, false
}
