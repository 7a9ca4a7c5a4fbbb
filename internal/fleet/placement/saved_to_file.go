package placement

import (
	"fmt"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
)

// WarnSaved warns if the memory of the VM, which is off, was saved to a file of which libvirt knows nothing more, as
// by "virsh save": what is done to the VM makes the file dangerous. does says what is done, as a sentence.
func WarnSaved(vm *inventory.VM, does string) []inventory.Problem {
	if !vm.SavedToFile() {
		return nil
	}

	return []inventory.Problem{{
		Summary: "Saved memory will not be restored", Warning: true,
		Detail: fmt.Sprintf("The memory of virtual machine %q was saved to a file on host %q, as by \"virsh save\". %s. "+
			"\"virsh restore\" of that file would then continue the guest with old memory on changed disks, and destroy "+
			"their data", vm.Name, vm.Host, does),
		Remedy: fmt.Sprintf("To continue the saved guest, first run \"virsh restore <file>\" on host %q. Otherwise delete "+
			"the file.", vm.Host),
	}}
}
