package virtualmachine

import (
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
)

// waitingWarning says which changes of an earlier apply wait for the next start, where nothing else is planned: that
// they wait isn't what update_policy says, as after a restart that was interrupted.
func (p planning) waitingWarning(waiting []domain.Change) diag.Diagnostics {
	if len(waiting) == 0 || p.config.updatePolicy() != fleet.PolicyLive || !p.state.RestartRequired.ValueBool() {
		return nil
	}
	return diag.Diagnostics{diag.NewAttributeWarningDiagnostic(path.Root("update_policy"),
		"Changes wait for the next start: "+text(p.state.Name), fmt.Sprintf("Virtual machine %q runs without these changes, "+
			"which its definition has since an earlier apply. An apply with update_policy = \"Live\" doesn't make them:\n%s\n\n"+
			"Shut the VM down and start it when it may be off, or set update_policy = \"Restart\". A reboot in the guest "+
			"isn't enough.", text(p.state.Name), domain.ListChanges(waiting)))}
}
