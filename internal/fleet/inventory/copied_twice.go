package inventory

import (
	"fmt"
	"slices"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
)

// RequireOneCopy returns an error if one of the VM's stale definitions may be the valid one, so that neither the VM may
// be started nor that definition removed.
func (vm *VM) RequireOneCopy() error {
	for _, name := range vm.StaleHosts {
		if _, twin := vm.twins[name]; twin {
			return vm.CopiedTwice(name)
		}
	}

	return nil
}

// CopiedTwice returns the error that a move has copied all of the VM's files to another host, which has its definition
// as well. Only a user can tell which of the two is the valid one: libvirt forgets whether a VM ran when its daemon is
// restarted.
func (vm *VM) CopiedTwice(other string) error {
	return &Error{
		VM: vm.Name, Host: other, Kind: ErrAmbiguous,
		Detail: fmt.Sprintf("a move was interrupted when all was copied: host %q has its definition and its files as well, "+
			"and may have started it since%s", other, vm.twins[other]),
		Remedy: fmt.Sprintf("Find out which of the two has what you want (compare the times of its disks and of QEMU's logs "+
			"on these hosts). Usually that is the one on host %q. Then undefine the other with \"virsh undefine --nvram %s\" "+
			"on its host. If the hosts share the files of its firmware or its TPM, use --keep-nvram --keep-tpm instead of "+
			"--nvram.", vm.Host, vm.UUID),
		Next: Retry,
	}
}

// TwinDisks returns the disks of stale definitions that may be the valid ones: they may have newer data than the VM's.
func (vm *VM) TwinDisks() []domain.Copy {
	var disks []domain.Copy

	for _, c := range vm.Metadata.Copies {
		name := vm.Peers[c.HostUUID]
		if _, twin := vm.twins[name]; twin && !c.Creating && c.FromUUID == vm.HostUUID && vm.HasFile(c.Path) {
			disks = append(disks, c)
		}
	}

	return disks
}

// twinsOf returns, by host, what tells apart the VM and a definition whose files a move has copied to the end. A
// definition that a migration left behind has not run since.
func twinsOf(vm *VM, home Reply, defined []Reply) map[string]string {
	var twins map[string]string

	for _, a := range defined {
		if a.Host == home.Host || a.MigratedAway() || a.Info == nil ||
			!slices.ContainsFunc(vm.CopiesOn(a.Info.UUID), func(c domain.Copy) bool { return !c.Creating }) {
			continue
		}

		if twins == nil {
			twins = map[string]string{}
		}

		twins[a.Host.Name] = ":" + sides([]Reply{home, a})
	}

	return twins
}
