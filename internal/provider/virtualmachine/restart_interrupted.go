package virtualmachine

import (
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
)

// restartInterrupted is the title of the warning about a VM that is off since a restart.
const restartInterrupted = "Restart of the virtual machine was interrupted"

// isRestartReason reports whether a status reason says that the VM is off since a restart.
func isRestartReason(reason string) bool {
	return reason == status.ReasonRestartInterrupted || reason == status.ReasonRestartLapsed
}

// warnAboutInterruptedRestart says why the apply starts a VM that its run strategy leaves off, or why it doesn't.
func (p planning) warnAboutInterruptedRestart(o *outcome, action status.Action) {
	name, strategy := text(p.state.Name), p.config.runStrategy()
	switch reason := text(p.state.StatusReason); {
	case !isRestartReason(reason), p.evicted != "", p.config.RunStrategy.IsUnknown(),
		strategy == status.Always, strategy == status.Halted:
	case action == status.Start:
		o.diags.AddAttributeWarning(path.Root("status"), restartInterrupted, fmt.Sprintf(
			"Virtual machine %q is off because an apply shut it down to restart it, and ended before it started the VM. This "+
				"apply starts it.\n\nTo keep it off, set run_strategy = \"Halted\".", name))
	default:
		o.diags.AddAttributeWarning(path.Root("status"), restartInterrupted, fmt.Sprintf(
			"An apply was to restart virtual machine %q, and ended before it started the VM. The VM is off. It isn't started, "+
				"because a user may have turned it off since: it was destroyed, libvirt no longer knows how it went off, or the "+
				"restart was long ago.\n\nTo start it, run \"virsh start %s\" on host %q. To keep it off, set "+
				"run_strategy = \"Halted\".", name, text(p.state.ID), text(p.state.CurrentHost)))
	}
}
