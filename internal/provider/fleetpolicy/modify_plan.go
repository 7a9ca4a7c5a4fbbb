package fleetpolicy

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

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
		resp.Diagnostics.Append(r.checkSelector(ctx, req, nil)...)
		resp.Diagnostics.Append(r.warnOfNamesake(ctx, req, nil)...)
		return
	}
	if !r.Asks("update", r.kind.Noun, &resp.Diagnostics) {
		return
	}
	if state := r.model(ctx, req.State, &resp.Diagnostics); state != nil {
		resp.Diagnostics.Append(r.checkSelector(ctx, req, state.Shared())...)
		resp.Diagnostics.Append(r.warnOfNamesake(ctx, req, state.Shared())...)
	}
	resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root("stale_hosts"), value.NewStringList([]string{}))...)
}

// checkSelector refuses hosts of the selector that the provider doesn't have, and warns about names that no VM has. was
// is the policy as it is, nil for a new one. If its selector stays, a host was removed from the provider's hosts since:
// that is only a warning, because it must not stop every other change of the configuration. The VMs of a new selector
// may be created by the same plan, so their names are looked for in later ones.
func (r *managed[P]) checkSelector(
	ctx context.Context, req resource.ModifyPlanRequest, was *Common,
) (diags diag.Diagnostics) {
	plan := r.model(ctx, req.Plan, &diags)
	if plan == nil || r.Data.Unknown {
		return nil // The caller's next step reports the error.
	}
	selector := plan.Shared().Selector
	stays, at := was != nil && selector.Equal(was.Selector), path.Root("selector")
	var unknown []string
	for _, host := range knownIn(selector, "hosts") {
		if !slices.Contains(r.Data.Fleet.HostNames(), host) {
			unknown = append(unknown, host)
		}
	}
	if len(unknown) > 0 {
		text := fmt.Sprintf("Policy %q names hosts that are not keys of the provider's hosts: %s. It selects no VM on "+
			"them.\n\nUse keys of hosts, which are %s.", plan.Shared().label(), quoted(unknown),
			quoted(r.Data.Fleet.HostNames()))
		if stays {
			diags.AddAttributeWarning(at.AtName("hosts"), "Unknown host", text)
		} else {
			diags.AddAttributeError(at.AtName("hosts"), "Unknown host", text)
		}
	}
	names := knownIn(selector, "names")
	if !stays || len(names) == 0 {
		return diags
	}
	all, silent, err := r.Data.Fleet.List(ctx)
	if err != nil || len(silent) > 0 {
		return diags // A silent host may have them.
	}
	for _, vm := range all {
		names = slices.DeleteFunc(names, func(name string) bool { return name == vm.Name })
	}
	if len(names) > 0 {
		diags.AddAttributeWarning(at.AtName("names"), "No virtual machine has this name", fmt.Sprintf(
			"Policy %q selects VMs by name, and no host has a VM named %s. It applies to such a VM once there is one.\n\n"+
				"Check the spelling.", plan.Shared().label(), quoted(names)))
	}
	return diags
}

// knownIn returns the known values of a set in the selector.
func knownIn(selector types.Object, name string) (known []string) {
	set, _ := selector.Attributes()[name].(types.Set)
	for _, element := range set.Elements() {
		if s, is := element.(types.String); is && !s.IsNull() && !s.IsUnknown() {
			known = append(known, s.ValueString())
		}
	}
	slices.Sort(known)
	return known
}

func quoted(names []string) string {
	all := make([]string, len(names))
	for i, name := range names {
		all[i] = strconv.Quote(name)
	}
	return strings.Join(all, ", ")
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
