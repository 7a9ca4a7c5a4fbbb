package virtualmachine

import (
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
)

// planMending plans that a machine whose migration broke in post-copy runs after the apply, which resumes the
// migration. What it takes to tell whether that can work no plan knows.
func (p planning) planMending(o *outcome) {
	if text(p.state.StatusReason) != status.ReasonPostcopyFailed {
		return
	}
	m := &o.planned
	m.Status, m.Phase = types.StringValue(status.StatusRunning), types.StringValue(status.PhaseRunning)
	if status.Power(p.config.strategy(), status.StatusRunning, status.PhaseRunning, "") == status.Stop {
		m.Status, m.Phase = types.StringValue(status.StatusStopped), types.StringUnknown()
	}
	m.StatusReason = types.StringUnknown()
	detail := fmt.Sprintf("A migration of virtual machine %q broke in post-copy: the guest runs on the host that it was "+
		"moved to, and a part of its memory is still on the host that it left. The apply resumes the migration.",
		text(p.state.Name))
	if text(p.state.Phase) == status.PhaseFailed {
		m.CurrentHost, m.CurrentHostUUID = types.StringUnknown(), types.StringUnknown()
		detail += "\n\nThe part on the host that it was moved to is gone, or isn't seen: unless that changes it can't be " +
			"resumed."
	}
	if o := p.config.migrationOptions(); o.OnIrrecoverable != "" {
		detail += fmt.Sprintf("\n\nIf that can't be, what is left of the machine is dealt with as on_irrecoverable = %q "+
			"says.", o.OnIrrecoverable)
	}
	o.diags.AddAttributeWarning(path.Root("status"), "Broken migration is resumed", detail)
}
