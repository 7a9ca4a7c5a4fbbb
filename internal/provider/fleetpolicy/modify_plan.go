package fleetpolicy

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

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
		resp.Diagnostics.Append(r.warnOfNamesake(ctx, req)...)
		return
	}
	if !r.Asks("update", r.kind.Noun, &resp.Diagnostics) {
		return
	}
	resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root("stale_hosts"), value.NewStringList([]string{}))...)
}

// warnOfNamesake warns about another policy with the same name. The apply refuses a second policy of that name. It is
// only a warning because the plan may remove the other policy: Terraform doesn't tell a resource whether it replaces
// another one.
func (r *managed[P]) warnOfNamesake(ctx context.Context, req resource.ModifyPlanRequest) diag.Diagnostics {
	var name types.String
	diags := req.Plan.GetAttribute(ctx, path.Root("name"), &name)
	if diags.HasError() || r.Data.Unknown || name.ValueString() == "" {
		return nil // The caller's next step reports the error.
	}
	copies, err := r.policies().Copies(ctx, func(p P) bool { return p.Identified().Name == name.ValueString() })
	if err != nil {
		return nil
	}
	found, _ := foundAndSilent(copies)
	if found == nil {
		return nil
	}
	diags.AddAttributeWarning(path.Root("name"), "Another policy has this name", fmt.Sprintf(
		"The hosts have a %s %q already, with id %s. Unless it is the one of a create that was interrupted, or this very "+
			"plan removes it first, apply will refuse to create another.\n\nChoose another name, or import it: terraform "+
			"import <address> %s", r.kind.Noun, name.ValueString(), (*found).Identified().ID, (*found).Identified().ID))
	return diags
}
