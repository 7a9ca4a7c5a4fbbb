package virtualmachine

import (
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
)

// planPostCopyRecovery plans that a VM whose migration broke in post-copy runs after the apply, which resumes the
// migration. A plan can't know whether resuming will succeed.
func (p planning) planPostCopyRecovery(o *outcome) {
	if text(p.state.StatusReason) != status.ReasonPostcopyFailed {
		return
	}
	m := &o.planned
	m.StatusReason = types.StringUnknown()
	lost := text(p.state.Phase) == status.PhaseFailed
	if lost {
		// The apply ends the VM if on_irrecoverable says so. That may be set by a policy, which the plan doesn't know
		// for certain.
		m.Status, m.Phase = types.StringUnknown(), types.StringUnknown()
		m.CurrentHost = types.StringUnknown()
		m.planOtherHost()
		o.diags.AddAttributeWarning(path.Root("status"), "Broken migration can't be resumed: a part of the memory is lost",
			fmt.Sprintf(
				"A migration of virtual machine %q failed in post-copy, and one of the two hosts has lost its part of the guest's "+
					"memory: it can't be resumed, what the guest had in memory is lost, and its disks are as after a power "+
					"failure.\n\n"+
					"With on_irrecoverable = \"destroy\" in migration_options, here or in the policy that holds for it, the apply "+
					"ends what is left and fails. The apply after it does what run_strategy says. Without it the apply fails, and "+
					"leaves what is there.",
				text(p.state.Name)))
		return
	}
	m.Status, m.Phase = types.StringValue(status.StatusRunning), types.StringValue(status.PhaseRunning)
	if status.PowerAction(p.config.runStrategy(), status.StatusRunning, status.PhaseRunning, "") == status.Stop {
		m.Status, m.Phase = types.StringValue(status.StatusStopped), types.StringUnknown()
	}
	detail := fmt.Sprintf("A migration of virtual machine %q broke in post-copy: the guest runs on the host that it was "+
		"moved to, and may lack memory that is still on the host that it left. The apply resumes the migration, or waits "+
		"for it if all of the memory was sent.",
		text(p.state.Name))
	if text(p.state.Phase) == status.PhaseUnknown {
		m.CurrentHost = types.StringUnknown()
		m.planOtherHost()
		detail += "\n\nThe other host doesn't answer, or it isn't known which one it is: unless that changes it can't be " +
			"resumed."
	}
	if o := p.config.migrationOptions(); o.OnIrrecoverable != "" {
		detail += fmt.Sprintf("\n\nIf that can't be, the apply does with the VM what on_irrecoverable = %q "+
			"says.", o.OnIrrecoverable)
	}
	o.diags.AddAttributeWarning(path.Root("status"), "Broken migration is resumed", detail)
}
