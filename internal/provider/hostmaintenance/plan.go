package hostmaintenance

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/eviction"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/tfdiag"
)

// ModifyPlan plans that the host is empty, shows how that comes about, and fails where it can't.
func (r *Resource) ModifyPlan(
	ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse,
) {
	if r.Data == nil || req.Plan.Raw.IsNull() {
		return
	}
	var plan, state model
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	again := !req.State.Raw.IsNull()
	if again {
		resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
		again = state.Host.Equal(plan.Host)
	}
	if resp.Diagnostics.HasError() {
		return
	}
	plan.Drained, plan.Results = types.BoolValue(true), types.ListUnknown(resultType)
	if again && state.Drained.ValueBool() {
		plan.Results = state.Results
	}
	resp.Diagnostics.Append(resp.Plan.Set(ctx, &plan)...)
	switch {
	case r.Data.Unknown && again:
		resp.Diagnostics.Append(r.Data.UnknownError("update", noun))
	case r.Data.Unknown, plan.Host.IsUnknown(), plan.Steps.IsUnknown(), plan.MoveStopped.IsUnknown():
	case again && state.Drained.ValueBool():
	default:
		resp.Diagnostics.Append(r.explain(ctx, &plan, again)...)
	}
}

// explain says what apply will do, and what keeps it from doing so.
func (r *Resource) explain(ctx context.Context, m *model, again bool) diag.Diagnostics {
	steps, diags := evacuation.ToFleet(ctx, m.Steps)
	if diags.HasError() {
		return diags
	}
	host := m.Host.ValueString()
	at := path.Root("steps")
	if steps == nil || again {
		plan, err := r.Data.Fleet.PlanEvacuation(ctx, host, m.MoveStopped.ValueBool(), m.toFleet().ID)
		if err != nil {
			diags.Append(tfdiag.Failure{Verb: "plan", Noun: noun, Host: host, Err: err}.AttributeError(path.Root("host")))
			return diags
		}
		steps, at = plan.Steps, path.Root("host")
		diags.AddAttributeWarning(at, "Host will be emptied", fmt.Sprintf(
			"As things are now, this happens to the virtual machines of host %q:\n%s\n\nApply does what is right then. To "+
				"have exactly this done or nothing, take steps from data.virtfleet_evacuation_plan.", host, evacuation.Text(steps)))
	}
	if blocked := eviction.Blocked(steps); len(blocked) > 0 {
		diags.Append(tfdiag.Problems([]fleet.Problem{{
			Attribute: at.String(), Summary: "Host can't be emptied", Detail: fleet.BlockedText(host, blocked),
			Remedy: fleet.BlockedRemedy,
		}})...)
	}
	for _, s := range steps {
		if s.Method == eviction.MethodPinned {
			diags.AddAttributeWarning(at, "Virtual machine is pinned to the host", fmt.Sprintf(
				"Virtual machine %q has host = %q in its configuration, which would bring it back. It is not moved, and apply "+
					"will fail because of it once all others have gone.\n\nChange its host, or remove it from its configuration, "+
					"before.", s.Name, host))
		}
	}
	return diags
}
