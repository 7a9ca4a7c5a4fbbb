package network

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/network"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/onhosts"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// ModifyPlan plans the network healthy on every host, and warns about what a change cuts off and what keeps the network
// from being removed.
func (r *networkResource) ModifyPlan(
	ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse,
) {
	if r.Data == nil {
		return
	}
	var config, plan, state model
	if req.Plan.Raw.IsNull() {
		resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
		resp.Diagnostics.Append(r.warnOfUsers(ctx, state, true, types.Set{}, nil)...)
		return
	}
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if !config.IPs.IsNull() {
		plan.IPs = config.IPs
	}
	if req.State.Raw.IsNull() {
		plan.ID = plan.Name
		if plan.Autostart.IsUnknown() && config.Autostart.IsNull() {
			plan.Autostart = types.BoolValue(true)
		}
		resp.Diagnostics.Append(config.checkAddressed()...)
		if !r.Data.Unknown {
			targets, diags := r.planTargets(config, plan, types.MapNull(types.StringType), config.createsBridge())
			resp.Diagnostics.Append(diags...)
			r.Data.Planned.Plan(status.NetworkBandwidth, plan.Name.ValueString(), targets.Names())
			resp.Diagnostics.Append(r.checkHosts(ctx, targets, plan, plan.Name.ValueString())...)
			resp.Diagnostics.Append(checkVLANs(ctx, targets, config, config)...)
			resp.Diagnostics.Append(warnOfCutOff(ctx, targets, plan)...)
			if !plan.Name.IsUnknown() {
				c := r.removal(plan.Name, nil)
				resp.Diagnostics.Append(c.CheckNew(ctx, targets, plan.Hosts, path.Root("name"))...)
			}
		}
		resp.Diagnostics.Append(resp.Plan.Set(ctx, plan)...)
		return
	}
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() || !r.Asks("update", noun(plan.Name), &resp.Diagnostics) {
		return
	}
	plan.keepUndeclared(config, state)
	targets, diags := r.planTargets(config, plan, state.HostStates, plan.createsBridge())
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	plan.HostStates = onhosts.PlanStates(targets, plan.Hosts, state.HostStates, plan.healthyState())
	whole := plan
	if !config.IPs.IsNull() {
		whole.IPs = withReservations(ctx, config.IPs, state.IPs)
	}
	resp.Diagnostics.Append(resp.Plan.Set(ctx, whole)...)
	if resp.Plan.Raw.Equal(req.State.Raw) {
		return
	}
	r.Data.Planned.Plan(status.NetworkBandwidth, plan.Name.ValueString(), targets.Names())
	if plan.Name.Equal(state.Name) {
		c := r.removal(plan.Name, req.Private)
		resp.Diagnostics.Append(c.CheckJoining(ctx, targets, plan.Hosts, state.HostStates)...)
	}
	resp.Diagnostics.Append(r.checkHosts(ctx, targets, plan, state.Name.ValueString())...)
	resp.Diagnostics.Append(checkVLANs(ctx, targets, config, plan)...)
	resp.Diagnostics.Append(r.warnOfUsers(ctx, state, !plan.Name.Equal(state.Name), plan.Hosts, targets)...)
	if plan.Name.Equal(state.Name) {
		resp.Diagnostics.Append(r.warnOfRestarts(ctx, targets, plan, config.declaredBlocks())...)
		resp.Diagnostics.Append(warnOfCutOff(ctx, targets, plan)...)
		resp.Diagnostics.Append(warnOfPortGroups(ctx, targets, plan, state)...)
		resp.Diagnostics.Append(warnOfLost(ctx, targets, config, plan, state, req.Private)...)
	}
}

// checkAddressed refuses a new network that libvirt refuses without an address. One that exists may have addresses
// which the configuration doesn't declare.
func (m *model) checkAddressed() (diags diag.Diagnostics) {
	spec, known, _ := m.spec([]string{"forward"})
	if known && m.IPs.IsNull() && spec.Forward != nil &&
		slices.Contains(network.Addressed, spec.Forward.Mode) {
		spec.IPs = []network.IP{}
		diags.Append(problemDiagnostics(spec)...)
	}
	return diags
}

// planTargets returns the hosts that the network is to be on. VMs that are planned later learn about them, and about
// the bridge if libvirt creates it under the name in the configuration. Reservations that are planned later learn
// whether these are other hosts than in last, the state's host_states. While the hosts are undecided, any host may have
// the network, and none is known to have its addresses.
func (r *networkResource) planTargets(
	config, plan model, last types.Map, createsBridge bool,
) (hostset.Set, diag.Diagnostics) {
	targets, diags := onhosts.Targets(r.Data, plan.Hosts)
	planned := meta.PlannedNetwork{Active: plan.Active.ValueBool(), PortGroups: config.plannedPortGroups()}
	if spec, known, _ := plan.spec([]string{"ips"}); known && !onhosts.Undecided(plan.Hosts) {
		planned.Addresses = spec.Addresses()
	}
	planned.Declared, _, _ = config.spec([]string{"ips"})
	planned.HostBridge = plan.hostBridge()
	if createsBridge && !onhosts.Undecided(plan.Hosts) {
		planned.Bridge = config.Bridge.ValueString()
	}
	before := value.StringMap(last)
	planned.HostsChange = onhosts.Undecided(plan.Hosts) || len(onhosts.Leaving(r.Data, last, targets)) > 0 ||
		slices.ContainsFunc(targets.Names(), func(host string) bool {
			state, listed := before[host]
			return !listed || state == onhosts.Missing
		})
	r.Data.Planned.PlanNetwork(plan.Name.ValueString(), planned, targets.Names())
	diags.Append(r.checkReservations(plan, planned)...)
	if planned.Active {
		if bridge := config.Bridge.ValueString(); bridge != "" && createsBridge {
			r.Data.Planned.Plan(status.Bridge, bridge, targets.Names())
		}
	}
	return targets, diags
}

// warnOfUsers lists the VMs that use a network which is to be removed from hosts.
func (r *networkResource) warnOfUsers(
	ctx context.Context, state model, removed bool, planned types.Set, targets hostset.Set,
) (diags diag.Diagnostics) {
	if r.Data.Unknown {
		return nil
	}
	losing := onhosts.Losing(r.Data, state.Hosts, state.HostStates, removed, planned, targets)
	users := func(ctx context.Context, h *libvirt.Host) ([]string, error) {
		return userNames(network.Users(ctx, h, state.Name.ValueString()))
	}
	if uses := onhosts.InUse(ctx, losing, noun(state.Name), users); len(uses) > 0 {
		// Terraform shows only one of several warnings with the same title.
		diags.AddWarning("Network is in use: "+state.Name.ValueString(), strings.Join(uses, " ")+" "+onhosts.StaysInUse)
	}
	return diags
}

func userNames(users []network.User, err error) (names []string, _ error) {
	for _, u := range users {
		names = append(names, u.String())
	}
	return names, err
}

// warnOfRestarts warns about the hosts on which the network is or may be restarted or stopped, and about the VMs that
// lose their connection.
func (r *networkResource) warnOfRestarts(
	ctx context.Context, targets hostset.Set, plan model, declared []string,
) (diags diag.Diagnostics) {
	spec, _, diags := plan.spec(declared)
	unknown := slices.DeleteFunc(declared, func(block string) bool {
		_, known, _ := plan.spec([]string{block})
		return known
	})
	name := plan.Name.ValueString()
	answers := hostset.Ask(ctx, targets, func(ctx context.Context, h *libvirt.Host) (*interruption, error) {
		return findInterruption(ctx, h, name, plan.wanted(spec), unknown)
	})
	var certain, doubtful, refused []string
	cut := false
	for _, a := range hostset.Found(answers) {
		used := len(a.Value.users) > 0
		text := fmt.Sprintf("%s on host %s. No running virtual machine uses it there.", a.Value.reason, a.Host)
		if used {
			text = fmt.Sprintf("%s on host %s. Running virtual machines that use it there: %s.", a.Value.reason, a.Host,
				strings.Join(a.Value.users, ", "))
		}
		switch {
		case a.Value.doubtful && used:
			doubtful = append(doubtful, text)
		case a.Value.doubtful:
		case used && plan.UpdatePolicy.ValueString() != updateRestart:
			refused = append(refused, text)
		default:
			certain, cut = append(certain, text), cut || used
		}
	}
	// Terraform shows only one of several warnings with the same title.
	if len(doubtful) > 0 {
		diags.AddWarning("Network may be interrupted: "+name, strings.Join(doubtful, "\n")+"\n\nWith update_policy = "+
			"\"Live\" the apply refuses the restart; with \"Restart\" they are cut off.")
	}
	const cutOff = "\n\nThese virtual machines are cut off until they are shut down and started again."
	if text := strings.Join(certain, "\n"); cut {
		diags.AddWarning("Network is interrupted: "+name, text+cutOff)
	} else if text != "" {
		diags.AddWarning("Network is interrupted: "+name, text)
	}
	if len(refused) > 0 {
		diags.AddAttributeError(path.Root("update_policy"), "Network would be interrupted", strings.Join(refused, "\n")+
			cutOff+"\n\nSet update_policy = \"Restart\" to do it nevertheless, or stop or move these virtual machines first.")
	}
	return diags
}

// interruption is a restart or stop of the network on a host.
type interruption struct {
	reason   string
	users    []string // running VMs
	doubtful bool     // whether it comes depends on what isn't known yet
}

// findInterruption returns the interruption if the host's network must be stopped to get the declared settings, or if
// the unknown blocks may require that. The error is libvirt.ErrNotFound if the network isn't stopped.
func findInterruption(
	ctx context.Context, h *libvirt.Host, name string, want network.Wanted, unknown []string,
) (*interruption, error) {
	have, err := network.Read(ctx, h, name)
	if err != nil {
		return nil, err
	}
	i := &interruption{}
	switch blocks := have.Restart(want.Spec); {
	case have.Active && !want.Active:
		i.reason = fmt.Sprintf("Network %q is stopped", name)
	case want.Active && len(blocks) > 0:
		i.reason = fmt.Sprintf("Network %q is restarted, because %s can't be changed while it is active", name,
			strings.Join(blocks, ", "))
	case have.Active && len(unknown) > 0:
		i.doubtful = true
		i.reason = fmt.Sprintf("Network %q may be restarted, because %s is known only during the apply", name,
			strings.Join(unknown, ", "))
	default:
		return nil, libvirt.ErrNotFound
	}
	users, err := network.Users(ctx, h, name)
	for _, u := range users {
		if u.Active {
			i.users = append(i.users, u.Name)
		}
	}
	return i, err
}
