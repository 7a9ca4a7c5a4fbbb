package tfdiag

import (
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
)

// ForcedOff warns of VMs whose guests were forced off. One warning names all of them, because Terraform shows only the
// first of several with one title. Without a VM there is no warning.
func ForcedOff(vms ...fleet.ForcedOff) (diags diag.Diagnostics) {
	if len(vms) == 0 {
		return nil
	}
	each := make([]string, len(vms))
	for i, vm := range vms {
		each[i] = fmt.Sprintf("Virtual machine %q on host %q was %s. What its guest hadn't written to its disks is lost.",
			vm.Name, vm.Host, vm.How)
	}
	diags.AddWarning("Virtual machine was forced off", printable(strings.Join(each, "\n")+
		"\n\nCheck the guest's agent and ACPI, or raise termination_grace_period."))
	return diags
}
