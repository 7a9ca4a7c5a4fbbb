package tfdiag

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
)

// DisksKept is the title of a warning about disks that should have been removed.
const DisksKept = "Disks of the virtual machine are kept"

// KeptDisks warns about disks that the operation that returned the VM should have removed: those that the VM no longer
// has, and originals of those that moves have copied. There is no warning if there are none.
func KeptDisks(vm *fleet.VM) diag.Diagnostics {
	if len(vm.KeptDisks) == 0 {
		return nil
	}
	return diag.Diagnostics{diag.NewWarningDiagnostic(DisksKept, fmt.Sprintf(
		"Virtual machine %q on host %q no longer has these disks. They stay:\n  - %s", vm.Name, vm.Host,
		strings.Join(vm.KeptDisks, "\n  - ")))}
}

// LostCheckpoints warns about checkpoints that moves couldn't bring along, by the name of each VM.
func LostCheckpoints(byVM map[string][]string) diag.Diagnostics {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(byVM)) {
		for _, lost := range byVM[name] {
			all = append(all, fmt.Sprintf("virtual machine %q: %s", name, lost))
		}
	}
	if len(all) == 0 {
		return nil
	}
	return diag.Diagnostics{diag.NewWarningDiagnostic("Checkpoints of the virtual machine are lost", fmt.Sprintf(
		"The move succeeded, but libvirt on the new host didn't accept these checkpoints:\n  - %s\n\nNo incremental backup "+
			"can continue from them. Make the next backup a full one, and give its checkpoint a new name: the disks may still "+
			"have bitmaps of the old names.", strings.Join(all, "\n  - ")))}
}
