package fleetpolicy

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/policy"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// ModifyPlan plans that every host has the policy afterwards, which repairs copies that are missing or differ.
func (r *managed[P]) ModifyPlan(
	ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse,
) {
	if r.Data == nil || req.Plan.Raw.IsNull() {
		return
	}
	if req.State.Raw.IsNull() {
		resp.Diagnostics.Append(r.warnOfNamesake(ctx, req, nil)...)
		return
	}
	if !r.Asks("update", r.kind.Noun, &resp.Diagnostics) {
		return
	}
	if state := r.model(ctx, req.State, &resp.Diagnostics); state != nil {
		resp.Diagnostics.Append(r.warnOfNamesake(ctx, req, state.Shared())...)
	}
	resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root("stale_hosts"), value.NewStringList([]string{}))...)
}

// warnOfNamesake warns about a policy on the hosts with the same content, which the apply takes over, or with only the
// same name, where it refuses another. It is only a warning because the plan may remove that policy: Terraform doesn't
// tell a resource whether it replaces another one. was is the policy as it is, nil for a new one: only a new name can
// be another policy's.
func (r *managed[P]) warnOfNamesake(
	ctx context.Context, req resource.ModifyPlanRequest, was *Common,
) diag.Diagnostics {
	var diags diag.Diagnostics
	plan := r.model(ctx, req.Plan, &diags)
	if plan == nil || r.Data.Unknown {
		return nil // The caller's next step reports the error.
	}
	if was != nil && plan.Shared().Name.Equal(was.Name) {
		return nil
	}
	name := plan.Shared().Name.ValueString()
	named := func(p P) bool { return name != "" && p.Identified().Name == name }
	same := func(p P) bool { return policy.Same(p, plan.ToFleet(p.Identified().ID)) }
	if !req.Config.Raw.IsFullyKnown() {
		same = func(P) bool { return false }
	}
	copies, err := r.policies().Copies(ctx, func(p P) bool {
		if was != nil {
			return named(p) && p.Identified().ID != was.ID.ValueString()
		}
		return named(p) || same(p)
	})
	if err != nil {
		return nil
	}
	found, _ := foundAndSilent(copies)
	if found == nil {
		return nil
	}
	noun, id := fmt.Sprintf("%s %q", r.kind.Noun, (*found).Identified().Name), (*found).Identified().ID
	if same(*found) {
		diags.AddWarning("Policy exists already", fmt.Sprintf("The hosts have the %s already, with id %s and the same "+
			"content. Unless this very plan removes it first, apply takes it over.\n\nIf another state has it, both states "+
			"then share it, and a destroy in either removes it. Have it in one of them only.", noun, id))
		return diags
	}
	diags.AddAttributeWarning(path.Root("name"), "Another policy has this name", fmt.Sprintf(
		"The hosts have the %s already, with id %s. Unless its content is the same, or this very plan removes it first, "+
			"apply will refuse to create another.\n\nChoose another name, or import it: terraform import <address> %s",
		noun, id, id))
	return diags
}
