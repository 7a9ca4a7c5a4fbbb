package hostmaintenance

import (
	"cmp"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/hostrecord"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// model is the resource in Terraform.
type model struct {
	ID          types.String   `tfsdk:"id"`
	Host        types.String   `tfsdk:"host"`
	Steps       types.List     `tfsdk:"steps"`
	MoveStopped types.Bool     `tfsdk:"move_stopped"`
	Restore     types.Bool     `tfsdk:"restore"`
	Reason      types.String   `tfsdk:"reason"`
	Timeouts    timeouts.Value `tfsdk:"timeouts"`
	Drained     types.Bool     `tfsdk:"drained"`
	Results     types.List     `tfsdk:"results"`
}

// defaultReason is the reason that is recorded on a host if the configuration gives none.
const defaultReason = "maintenance"

// toFleet returns the requested drain, without its steps.
func (m *model) toFleet() fleet.Drain {
	host := m.Host.ValueString()
	return fleet.Drain{
		Host: host, ID: m.ID.ValueString(), Why: cmp.Or(m.Reason.ValueString(), defaultReason),
		MoveStopped: m.MoveStopped.ValueBool(),
	}
}

// readReason sets the reason that the host has recorded.
func (m *model) readReason(why string) {
	switch {
	case why == m.toFleet().Why:
	case why == defaultReason:
		m.Reason = types.StringNull()
	default:
		m.Reason = types.StringValue(why)
	}
}

// setSteps records the result for each VM.
func (m *model) setSteps(steps []hostrecord.RecordedStep, drained bool) {
	m.Drained = types.BoolValue(drained)
	results := make([]attr.Value, len(steps))
	for i, s := range steps {
		results[i] = types.ObjectValueMust(resultType.AttrTypes, map[string]attr.Value{
			"virtual_machine_id": types.StringValue(s.UUID), "name": types.StringValue(s.Name),
			"method": types.StringValue(s.Method), "target": value.NewStringOrNull(s.WentTo()),
			"result": value.NewStringOrNull(s.Result), "reason": value.NewStringOrNull(s.Reason),
		})
	}
	m.Results = types.ListValueMust(resultType, results)
}

// leavesHost reports whether the plan leaves the host as it is: the host is drained, and the plan doesn't newly ask to
// move stopped VMs.
func (m *model) leavesHost(state *model) bool {
	return state.Drained.ValueBool() && (!m.MoveStopped.ValueBool() || state.MoveStopped.ValueBool())
}
