package inventory

import (
	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
)

// CopiesOn returns the files that unfinished moves of the VM from its present host left on another host.
func (vm *VM) CopiesOn(hostUUID string) []domain.Copy {
	var copies []domain.Copy

	for _, c := range vm.Metadata.Copies {
		if c.HostUUID == hostUUID && c.FromUUID == vm.HostUUID {
			copies = append(copies, c)
		}
	}

	return copies
}

// UnfinishedCopies returns the files that unfinished moves of the VM from its present host made on hosts that answered.
// A run may still be making them.
func (vm *VM) UnfinishedCopies() []domain.LeftVolume {
	var left []domain.LeftVolume

	for _, c := range vm.Metadata.Copies {
		if name := vm.Peers[c.HostUUID]; name != "" && c.HostUUID != vm.HostUUID && c.FromUUID == vm.HostUUID {
			left = append(left, domain.LeftVolume{Host: name, HostUUID: c.HostUUID, Path: c.Path})
		}
	}

	return left
}

// CarriedCopies returns what unfinished moves from one host left on third hosts, as it is recorded once a move has
// brought the VM from there to another host.
func CarriedCopies(copies []domain.Copy, fromUUID, toUUID string) []domain.Copy {
	var carried []domain.Copy

	for _, c := range copies {
		if c.FromUUID == fromUUID && c.HostUUID != fromUUID && c.HostUUID != toUUID {
			c.FromUUID = toUUID
			carried = append(carried, c)
		}
	}

	return carried
}
