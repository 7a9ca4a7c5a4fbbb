package tfdiag

import (
	"fmt"
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
