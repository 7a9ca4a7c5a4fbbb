package inventory

import (
	"fmt"
	"maps"
	"slices"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// OwnsHere says that the volume of a record is the VM's on the host where it is. A record comes along to other hosts,
// where a volume of that name may be another's.
func (vm *VM) OwnsHere(o domain.OwnDisk) bool {
	return o.HostUUID != "" && o.HostUUID == vm.HostUUID || vm.HasFile(o.Path)
}

// HasFile says that a disk of the VM is the file, or what its guest gets at the first boot, now or at its next start.
func (vm *VM) HasFile(file string) bool {
	for _, spec := range []*domain.Spec{vm.PersistentSpec, vm.LiveSpec} {
		if spec == nil {
			continue
		}

		if spec.Ignition != nil && *spec.Ignition == file {
			return true
		}

		for _, d := range spec.Disks {
			if d.Source.File == file {
				return true
			}
		}
	}

	return false
}

// Movable are the VM's own disks, by key, that move with it: those that are made and that it has.
func (vm *VM) Movable() map[string]domain.OwnDisk {
	own := maps.Clone(vm.Metadata.OwnDisks)
	maps.DeleteFunc(own, func(_ string, o domain.OwnDisk) bool { return o.Making || !vm.HasFile(o.Path) })

	return own
}

// Leaving are the volumes of own disks that a move copies, as they are at the source: those of the files that were made
// on the target.
func (vm *VM) Leaving(made []string) []domain.LeftVolume {
	left := slices.Clone(vm.Metadata.LeftVolumes)

	for _, key := range slices.Sorted(maps.Keys(vm.Metadata.OwnDisks)) {
		o := vm.Metadata.OwnDisks[key]
		l := domain.LeftVolume{Host: vm.Host, HostUUID: vm.HostUUID, Pool: o.Pool, Volume: o.Volume, Path: o.Path}

		if !o.Making && slices.Contains(made, o.Path) && !slices.Contains(left, l) {
			left = append(left, l)
		}
	}

	return left
}

// NotOwn leaves out the files of own disks.
func (vm *VM) NotOwn(files []string) []string {
	return slices.DeleteFunc(slices.Clone(files), func(file string) bool {
		return slices.ContainsFunc(slices.Collect(maps.Values(vm.Metadata.OwnDisks)), func(o domain.OwnDisk) bool {
			return o.Path == file
		})
	})
}

// SettleMoved is what the metadata of a VM say of its own disks once a move is over: they are where it is, and what is
// there is nothing that was left.
func (vm *VM) SettleMoved() {
	vm.Metadata.LeftVolumes = slices.DeleteFunc(slices.Clone(vm.Metadata.LeftVolumes), func(l domain.LeftVolume) bool {
		return l.HostUUID == vm.HostUUID
	})
	vm.Metadata.OwnDisks = maps.Clone(vm.Metadata.OwnDisks)

	for key, o := range vm.Metadata.OwnDisks {
		if !o.Making && vm.HasFile(o.Path) {
			o.HostUUID = vm.HostUUID
			vm.Metadata.OwnDisks[key] = o
		}
	}
}

// Ran says that a guest has been running since the host's libvirt was started.
func (vm *VM) Ran() bool {
	return vm.Active || vm.State != libvirt.Shutoff || vm.Reason != "Unknown" && vm.Reason != "Failed"
}

// LeftVolumes are volumes of own disks that moves left on other hosts, as "<host>: <pool>/<volume>", of those hosts
// that answered.
func (vm *VM) LeftVolumes() []string {
	var left []string

	for _, l := range vm.Metadata.LeftVolumes {
		if name := vm.Peers[l.HostUUID]; name != "" && l.HostUUID != vm.HostUUID {
			left = append(left, fmt.Sprintf("%s: %s/%s", name, l.Pool, l.Volume))
		}
	}

	slices.Sort(left)

	return left
}

// CopiesOn are the files that unfinished moves of the VM left on a host.
func (vm *VM) CopiesOn(hostUUID string) []domain.Copy {
	var copies []domain.Copy

	for _, c := range vm.Metadata.Copies {
		if c.HostUUID == hostUUID && c.FromUUID == vm.HostUUID {
			copies = append(copies, c)
		}
	}

	return copies
}

// peers are the names of the hosts that answered, by their libvirt UUIDs.
func peers(answers []Reply) map[string]string {
	names := make(map[string]string, len(answers))

	for _, a := range answers {
		if a.Err == nil && a.Info != nil && !a.Fenced() {
			names[a.Info.UUID] = a.Host.Name
		}
	}

	return names
}
