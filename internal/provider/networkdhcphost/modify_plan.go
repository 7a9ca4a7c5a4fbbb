package networkdhcphost

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/network"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/onhosts"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/tfdiag"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// ModifyPlan plans the reservation as present on every host where its network was last seen. If the reservation
// changes, or if the same apply creates the network on a host or removes it from one, Update finds out which hosts have
// it: a network that is created again has lost the reservation.
func (r *hostResource) ModifyPlan(
	ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse,
) {
	if r.Data == nil {
		return
	}
	var plan, state model
	if !req.State.Raw.IsNull() {
		resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	}
	if req.Plan.Raw.IsNull() {
		r.Data.Reservations.PlanDestroy(state.key())
		return
	}
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	if resp.Diagnostics.HasError() {
		return
	}
	verb := "update"
	if req.State.Raw.IsNull() || plan.key() != state.key() {
		verb = "create"
	}
	moves := !plan.IP.Equal(state.IP) || !plan.Network.Equal(state.Network)
	changes := !plan.IP.Equal(state.IP) || !plan.Name.Equal(state.Name)
	earlier, kept := r.recordPlan(&plan, &state, verb == "update", !changes)
	resp.Diagnostics.Append(r.checkNetwork(ctx, verb, &plan, moves)...)
	if !resp.Diagnostics.HasError() && (changes || verb == "create" || state.differsSomewhere()) {
		resp.Diagnostics.Append(r.checkTaken(ctx, verb, &plan, &state, changes, earlier)...)
	}
	resp.Diagnostics.Append(kept...)
	if verb == "create" || resp.Diagnostics.HasError() || plan.MAC.IsUnknown() || plan.Network.IsUnknown() {
		return
	}
	states := map[string]string{}
	for host := range value.StringMap(state.HostStates) {
		states[host] = onhosts.Present
	}
	planned := value.NewStringMap(states)
	// A network to which the reservation has no reference may be planned after it. Terraform plans a change again in the
	// apply, and would refuse another result.
	if changes || !r.Data.Unknown && r.networkHostsChange(plan.Network.ValueString()) {
		planned = types.MapUnknown(types.StringType)
	}
	resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root(onhosts.StatesName), planned)...)
}

// differsSomewhere reports whether the reservation wasn't as applied on every host.
func (m *model) differsSomewhere() bool {
	for _, state := range value.StringMap(m.HostStates) {
		if state != onhosts.Present {
			return true
		}
	}
	return false
}

// networkHostsChange reports whether a network that was planned before will be created on a host or removed from one.
func (r *hostResource) networkHostsChange(name string) bool {
	return slices.ContainsFunc(r.Data.Fleet.Connections().Names(), func(host string) bool {
		return r.Data.Planned.Networks(host)[name].HostsChange
	})
}

// checkNetwork returns why the network can't have the reservation, as it is planned or else as the hosts have it. If
// the reservation keeps its address and its network, a network that isn't planned keeps the reservation.
func (r *hostResource) checkNetwork(ctx context.Context, verb string, plan *model, moves bool) diag.Diagnostics {
	if r.Data.Unknown || plan.Network.IsUnknown() || plan.IP.IsUnknown() {
		return nil
	}
	name := plan.Network.ValueString()
	misfit := func(host string, addresses []netip.Prefix, planned meta.PlannedNetwork) diag.Diagnostics {
		why := plan.reservation().Misfit(name, addresses)
		if subnet, other := planned.Declared.OtherDHCP(plan.reservation()); why == "" && other {
			why = fmt.Sprintf("The virtfleet_network %q has DHCP in %s, and libvirt has it in one subnet of IPv4 and one of "+
				"IPv6. Set ip to an address of %s.", name, subnet, subnet)
		}
		if why == "" {
			why = planned.Drops(name, plan.reservation())
		}
		if why == "" {
			return nil
		}
		f := tfdiag.Failure{Verb: verb, Noun: plan.noun(), Host: host, Happened: why, Remedy: tfdiag.DestroyAnyway}
		return diag.Diagnostics{f.AttributeError(path.Root("ip"))}
	}
	hosts := r.Data.Fleet.Connections()
	for _, host := range hosts.Names() {
		planned, ok := r.Data.Planned.Networks(host)[name]
		switch {
		case ok && planned.Addresses == nil:
			return nil
		case ok:
			return misfit(host, planned.Addresses, planned)
		}
	}
	if !moves {
		return nil
	}
	answers := hostset.Ask(ctx, hosts, func(ctx context.Context, h *libvirt.Host) (*network.State, error) {
		return network.Read(ctx, h, name)
	})
	found := hostset.Found(answers)
	for _, a := range found {
		if diags := misfit(a.Host, a.Value.Spec.Addresses(), meta.PlannedNetwork{}); diags != nil {
			return diags
		}
	}
	if len(found) == 0 && len(hostset.Silent(answers)) == 0 {
		return diag.Diagnostics{r.noNetwork(plan, " "+onhosts.AbsentFromPlan)}
	}
	return nil
}
