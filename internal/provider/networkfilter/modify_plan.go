package networkfilter

import (
	"context"
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/network"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/onhosts"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/tfdiag"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// ModifyPlan plans the filter as present on every host, and lists what uses a filter that is to be destroyed.
func (r *filterResource) ModifyPlan(
	ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse,
) {
	if r.Data == nil || r.Data.Unknown {
		return
	}
	var plan, state model
	if !req.State.Raw.IsNull() {
		resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	}
	if req.Plan.Raw.IsNull() {
		resp.Diagnostics.Append(r.warnOfUsers(ctx, &state,
			onhosts.Losing(r.Data, state.Hosts, state.HostStates, true, types.Set{}, nil))...)
		return
	}
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	if resp.Diagnostics.HasError() {
		return
	}
	targets, diags := onhosts.Targets(r.Data, plan.Hosts)
	resp.Diagnostics.Append(diags...)
	r.Data.Planned.Plan(status.NetworkFilter, plan.Name.ValueString(), targets.Names())
	if !resp.Diagnostics.HasError() && !resp.Plan.Raw.Equal(req.State.Raw) && !onhosts.Undecided(plan.Hosts) {
		resp.Diagnostics.Append(r.warnOfMissing(ctx, &plan, targets)...)
		resp.Diagnostics.Append(r.checkVariables(ctx, &plan, targets)...)
	}
	if req.State.Raw.IsNull() && !plan.Name.IsUnknown() {
		c := r.changeTo(&plan, network.Filter{}, nil, nil)
		resp.Diagnostics.Append(c.CheckNew(ctx, targets, plan.Hosts, path.Root("name"))...)
	}
	if req.State.Raw.IsNull() || resp.Diagnostics.HasError() {
		return
	}
	resp.Diagnostics.Append(r.warnOfUsers(ctx, &state, onhosts.Losing(r.Data, state.Hosts, state.HostStates,
		!plan.Name.Equal(state.Name), plan.Hosts, targets))...)
	if plan.Name.Equal(state.Name) {
		c := r.changeTo(&plan, network.Filter{}, nil, req.Private)
		resp.Diagnostics.Append(c.CheckJoining(ctx, targets, plan.Hosts, state.HostStates)...)
	}
	states := onhosts.PlanStates(targets, plan.Hosts, state.HostStates, onhosts.Present)
	resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root(onhosts.StatesName), states)...)
}

// warnOfMissing warns of filters that are part of the filter and that hosts don't have. libvirt accepts its definition
// all the same, in whichever order the filters are created, but starts no VM with it.
func (r *filterResource) warnOfMissing(ctx context.Context, plan *model, targets hostset.Set) (diags diag.Diagnostics) {
	f, _, diags := plan.filter()
	names, planned := f.Referenced(), r.Data.Planned.All()
	answers := hostset.Ask(ctx, targets, func(ctx context.Context, h *libvirt.Host) (*[]string, error) {
		var lacks []string
		for _, name := range names {
			if planned.On(h.Name(), status.NetworkFilter, name) {
				continue
			}
			has, err := h.HasNWFilter(ctx, name)
			if err != nil {
				return nil, err
			}
			if !has {
				lacks = append(lacks, name)
			}
		}
		return &lacks, nil
	})
	hosts := map[string][]string{}
	for _, a := range hostset.Found(answers) {
		if lacks := strings.Join(*a.Value, ", "); lacks != "" {
			hosts[lacks] = append(hosts[lacks], a.Host)
		}
	}
	for _, lacks := range value.Keys(hosts) {
		diags.AddWarning("Network filter not found", fmt.Sprintf("%s refers to filters that hosts don't have: %s. Host: %s. "+
			"VMs with it don't start there. Correct the names, or create these filters, for example in this apply.",
			plan.noun(), lacks, strings.Join(hosts[lacks], ", ")))
	}
	return diags
}

// checkVariables refuses a filter with variables for which interfaces of running VMs have no value: libvirt would
// refuse it on these hosts only. It warns of VMs that are off: libvirt would refuse to start them.
func (r *filterResource) checkVariables(
	ctx context.Context, plan *model, targets hostset.Set,
) (diags diag.Diagnostics) {
	f, known, _ := plan.filter()
	if !known {
		return nil
	}
	answers := hostset.Ask(ctx, targets, func(ctx context.Context, h *libvirt.Host) (*[]network.Unresolved, error) {
		all, err := network.UnresolvedVariables(ctx, h, plan.Name.ValueString(), f)
		return &all, err
	})
	var running, off []string
	for _, a := range hostset.Found(answers) {
		for _, u := range *a.Value {
			line := fmt.Sprintf("  - %s (host %s): $%s", u.VM, a.Host, strings.Join(u.Variables, ", $"))
			if u.Runs {
				running = append(running, line)
			} else {
				off = append(off, line)
			}
		}
	}
	const remedy = "Set these variables in filter.parameters of the interfaces first, in an apply of its own. libvirt " +
		"ignores those that the filter doesn't have yet."
	if len(running) > 0 {
		diags.Append(tfdiag.Failure{
			Verb: "update", Noun: plan.noun(), Remedy: remedy, Happened: "It would have variables for which interfaces of " +
				"running virtual machines have no value, and libvirt would refuse it:\n\n" + strings.Join(running, "\n"),
		}.AttributeError(path.Root(rulesAt(f))))
	}
	if len(off) > 0 {
		diags.AddAttributeWarning(path.Root(rulesAt(f)), "Network filter lacks values: "+plan.Name.ValueString(),
			"It will have variables for which interfaces of these virtual machines have no value, and libvirt won't start "+
				"them:\n\n"+strings.Join(off, "\n")+"\n\n"+remedy)
	}
	return diags
}

// warnOfUsers lists what uses a filter that is to be removed from hosts.
func (r *filterResource) warnOfUsers(ctx context.Context, state *model, losing hostset.Set) (diags diag.Diagnostics) {
	users := func(ctx context.Context, h *libvirt.Host) ([]string, error) {
		return network.FilterUse(ctx, h, state.Name.ValueString())
	}
	if uses := onhosts.InUse(ctx, losing, state.noun(), users); len(uses) > 0 {
		// Terraform shows only one of several warnings with the same title.
		diags.AddWarning("Network filter is in use: "+state.Name.ValueString(),
			strings.Join(uses, " ")+" "+onhosts.StaysInUse)
	}
	return diags
}
