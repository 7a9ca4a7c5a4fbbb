package placement

import (
	"maps"
	"slices"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
)

// OwnDisks returns the records of the VM's own disks. A mark that a disk is to be deleted counts only once the VM's
// definition has lost the disk: the update that set it may have failed before that.
func OwnDisks(vm *inventory.VM) map[string]domain.OwnDisk {
	own := maps.Clone(vm.Metadata.OwnDisks)

	for key, o := range own {
		if _, there := vm.DeclaredSpec().Disks[key]; there && o.Removing {
			o.Removing, o.SeenIn = false, ""
			own[key] = o
		}
	}

	return own
}

// RenamedOwnDisks returns the records of the VM's own disks under the keys with which they are declared now, see
// OwnDisksUnder.
func (d Desired) RenamedOwnDisks(vm *inventory.VM) map[string]domain.OwnDisk {
	return d.OwnDisksUnder(OwnDisks(vm), vm.DeclaredSpec().Disks)
}

// OwnDisksUnder returns the records of own disks under the keys with which they are declared now. defined are the disks
// in the VM's definition; what it has lost isn't renamed, and neither is what an earlier run has renamed already.
func (d Desired) OwnDisksUnder(
	have map[string]domain.OwnDisk, defined map[string]domain.Disk,
) map[string]domain.OwnDisk {
	records := maps.Clone(have)
	made := maps.Clone(have)
	maps.DeleteFunc(made, func(key string, o domain.OwnDisk) bool {
		return o.Creating || o.Removing || IsFirstBoot(key) || !DefinesOwnDisk(defined, key, o)
	})

	for to, from := range d.Renamed {
		_, there := made[from]
		_, done := made[to]

		if there && !done {
			records[to] = have[from]
			delete(records, from)
		}
	}

	return records
}

// DefinesOwnDisk reports whether a definition has an own disk, under its key or, if an interrupted update has renamed
// it there, under another one.
func DefinesOwnDisk(defined map[string]domain.Disk, key string, o domain.OwnDisk) bool {
	_, there := defined[key]

	return there || slices.ContainsFunc(slices.Collect(maps.Values(defined)), func(disk domain.Disk) bool {
		return disk.Source.VolumePath() == o.Path
	})
}
