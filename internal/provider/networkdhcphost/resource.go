package networkdhcphost

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
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

// TypeName is the resource's full name.
const TypeName = "virtfleet_network_dhcp_host"

const noun = "DHCP reservation"

const defaultTimeout = 5 * time.Minute

// differs is the value of host_states for a host that has another reservation for the same MAC address.
const differs = "differs"

var (
	_ resource.ResourceWithConfigure      = (*hostResource)(nil)
	_ resource.ResourceWithImportState    = (*hostResource)(nil)
	_ resource.ResourceWithModifyPlan     = (*hostResource)(nil)
	_ resource.ResourceWithValidateConfig = (*hostResource)(nil)
)

type hostResource struct{ meta.Resource }

// NewResource is the constructor that the provider registers.
func NewResource() resource.Resource { return &hostResource{meta.Resource{TypeName: TypeName}} }

// model is the resource in Terraform.
type model struct {
	ID         types.String   `tfsdk:"id"`
	Network    types.String   `tfsdk:"network"`
	MAC        types.String   `tfsdk:"mac"`
	DUID       types.String   `tfsdk:"duid"`
	IP         types.String   `tfsdk:"ip"`
	Name       types.String   `tfsdk:"name"`
	HostStates types.Map      `tfsdk:"host_states"`
	Timeouts   timeouts.Value `tfsdk:"timeouts"`
}

func (m *model) reservation() network.DHCPHost {
	return network.DHCPHost{
		MAC: m.MAC.ValueString(), DUID: m.DUID.ValueString(), IP: m.IP.ValueString(), Name: m.Name.ValueString(),
	}
}

func (m *model) noun() string {
	return fmt.Sprintf("%s %q", noun, m.key())
}

func (m *model) key() string {
	return m.Network.ValueString() + "/" + strings.ToLower(m.MAC.ValueString()+m.DUID.ValueString())
}

// Schema describes the resource.
func (r *hostResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = hostSchema
}

// ValidateConfig checks everything that can be checked without a host.
func (r *hostResource) ValidateConfig(
	ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse,
) {
	var config model
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	if resp.Diagnostics.HasError() || config.MAC.IsUnknown() || config.DUID.IsUnknown() || config.IP.IsUnknown() ||
		config.Name.IsUnknown() {
		return
	}
	reason := config.reservation().Validate()
	if reason == "" {
		reason = config.validateKey()
	}
	if reason != "" {
		resp.Diagnostics.AddAttributeError(path.Root("ip"), "Invalid DHCP reservation", reason)
	}
}

// validateKey returns what is wrong with the MAC address and the DUID of a reservation that libvirt would accept: the
// resource is identified by exactly one of them.
func (m *model) validateKey() string {
	mac, duid := m.MAC.ValueString(), m.DUID.ValueString()
	switch ip := m.IP.ValueString(); {
	case mac == "" && duid == "":
		return fmt.Sprintf("The reservation of %s needs duid, which identifies the resource. A reservation for a name "+
			"alone can be in ips[*].dhcp.hosts of the virtfleet_network.", ip)
	case mac != "" && duid != "":
		return fmt.Sprintf("The reservation of %s has both mac and duid. Remove duid: with IPv4 libvirt goes by the MAC "+
			"address.", ip)
	}
	return ""
}

// askHosts asks every host for the reservation. A host without the network doesn't count as found.
func (r *hostResource) askHosts(ctx context.Context, m *model) []hostset.Answer[network.Reservation] {
	return hostset.Ask(ctx, r.Data.Fleet.Connections(), m.read)
}

// read reads the reservation on a host.
func (m *model) read(ctx context.Context, h *libvirt.Host) (*network.Reservation, error) {
	return network.ReadReservation(ctx, h, m.Network.ValueString(), m.reservation())
}

// Create adds the reservation on every host that has the network.
func (r *hostResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var plan model
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	if resp.Diagnostics.HasError() || !r.Asks("create", plan.noun(), &resp.Diagnostics) {
		return
	}
	ctx, cancel := tfdiag.LimitedBy(ctx, "create", plan.Timeouts.Create, defaultTimeout, &resp.Diagnostics)
	defer cancel()
	answers := r.askHosts(ctx, &plan)
	found := hostset.Found(answers)
	if len(found) == 0 {
		if silent := hostset.Silent(answers); len(silent) > 0 {
			resp.Diagnostics.Append(onhosts.Failures("create", plan.noun(), silent)...)
		} else {
			resp.Diagnostics.Append(r.noNetwork(&plan, ""))
		}
		return
	}
	undo, again := r.Data.Reservations.Adding(plan.key())
	if again {
		resp.Diagnostics.Append(r.failures(&plan, "create", map[string]error{
			found[0].Host: &network.ReservedError{Network: plan.Network.ValueString(), Have: plan.reservation()},
		}, false)...)
		return
	}
	failed := plan.takenOn(answers, true, nil)
	targets := hostset.Set{}
	if len(failed) == 0 {
		failed, targets = r.add(ctx, found, &plan)
	}
	if exists := anyExists(failed); exists || len(failed) == len(targets) {
		undo()
		resp.Diagnostics.Append(r.failures(&plan, "create", failed, false)...)
		return
	}
	resp.Diagnostics.Append(onhosts.Warnings("create", plan.noun(), failed)...)
	resp.Diagnostics.Append(onhosts.Warnings("create", plan.noun(), hostset.Silent(answers))...)
	plan.ID = types.StringValue(plan.key())
	plan.HostStates = onhosts.StatesAfter(targets, failed, types.MapNull(types.StringType), onhosts.Present)
	resp.Diagnostics.Append(resp.State.Set(ctx, plan)...)
}

// noNetwork returns the error that no host has the network. more is added to its remedy.
func (*hostResource) noNetwork(m *model, more string) diag.Diagnostic {
	return tfdiag.Failure{
		Verb: "create", Noun: m.noun(), Err: onhosts.NotFound("network", m.Network.ValueString()),
		Remedy: "Correct network. For a network of this configuration, set it to the name attribute of the " +
			"virtfleet_network, which is then created first." + more,
	}.AttributeError(path.Root("network"))
}

// Read compares the reservations on the hosts. The reservation is gone if every host answered and none has it.
func (r *hostResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var state model
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() || !r.Asks("read", state.noun(), &resp.Diagnostics) {
		return
	}
	r.Data.Reservations.Had(state.key())
	answers := reservationsOf(r.askHosts(ctx, &state))
	state.setFromAnswers(answers)
	seen, diags := onhosts.Observe(onhosts.Question[network.Reservation]{
		Data: r.Data, Noun: state.noun(), Hosts: types.SetNull(types.StringType), Last: state.HostStates,
		Answers: answers, State: state.hostState,
	})
	resp.Diagnostics.Append(diags...)
	if seen.Concludes(ctx, resp, noun, state.key(), false) {
		return
	}
	state.HostStates = value.NewStringMap(seen.States)
	resp.Diagnostics.Append(resp.State.Set(ctx, state)...)
}

// reservationsOf turns answers about networks into answers about the reservation: hosts without the network are left
// out, because they can't have it.
func reservationsOf(networks []hostset.Answer[network.Reservation]) (answers []hostset.Answer[network.Reservation]) {
	for _, a := range networks {
		if a.Err == nil && a.Value == nil {
			continue
		}
		if a.Value != nil && a.Value.Any() == nil {
			a.Value = nil
		}
		answers = append(answers, a)
	}
	return answers
}

// setFromAnswers sets the model to a host's reservation if no host has the applied one.
func (m *model) setFromAnswers(answers []hostset.Answer[network.Reservation]) {
	found := hostset.Found(answers)
	applied := func(a hostset.Answer[network.Reservation]) bool { return a.Value.Complete(m.reservation()) }
	if len(found) > 0 && !slices.ContainsFunc(found, applied) {
		have := found[0].Value.Any()
		m.IP, m.Name = types.StringValue(have.IP), value.NewStringOrNull(have.Name)
	}
}

// hostState returns the value of host_states for a host that has a reservation.
func (m *model) hostState(have network.Reservation) string {
	want := m.reservation()
	if have.Complete(want) && !have.Repeated(want) && !have.SharesAddress(want) {
		return onhosts.Present
	}
	return differs
}

// Update writes the reservation on the hosts in the plan.
func (r *hostResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan, state model
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() || !r.Asks("update", plan.noun(), &resp.Diagnostics) {
		return
	}
	ctx, cancel := tfdiag.LimitedBy(ctx, "update", plan.Timeouts.Update, defaultTimeout, &resp.Diagnostics)
	defer cancel()
	targets := r.hostsToUpdate(ctx, &plan, &state)
	removed := false
	if !plan.IP.Equal(state.IP) || !plan.Name.Equal(state.Name) {
		changed := r.Data.Reservations.Changing(plan.key())
		defer changed()
		var taken map[string]error
		removed, taken = r.awaitFree(ctx, targets, &plan, &state)
		if len(taken) > 0 { // Every host keeps what it has.
			resp.Diagnostics.Append(r.failures(&plan, "update", taken, false)...)
			if removed {
				resp.Diagnostics.Append(r.restore(ctx, targets, &state)...)
			}
			return
		}
	}
	failed := r.put(ctx, targets, &plan)
	resp.Diagnostics.Append(r.failures(&plan, "update", failed, false)...)
	if removed {
		resp.Diagnostics.Append(r.restore(ctx, targets.Named(value.Keys(failed)...), &state)...)
	}
	plan.HostStates = onhosts.StatesAfter(targets, failed, state.HostStates, onhosts.Present)
	if len(failed) > 0 {
		plan.IP, plan.Name = state.IP, state.Name
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, plan)...)
}

// hostsToUpdate returns the hosts in the plan. A network that has been added since shows in the next plan. If the plan
// leaves open which hosts these are, they are those that have the network, and those in the state that don't answer.
func (r *hostResource) hostsToUpdate(ctx context.Context, plan, state *model) hostset.Set {
	names := value.Keys(value.StringMap(plan.HostStates))
	if plan.HostStates.IsUnknown() {
		last := value.StringMap(state.HostStates)
		for _, a := range r.askHosts(ctx, plan) {
			if _, was := last[a.Host]; a.Value != nil || a.Err != nil && was {
				names = append(names, a.Host)
			}
		}
	}
	return r.Data.Fleet.Connections().Named(names...)
}

// Delete removes the reservation from every host, except where this run has created it for another resource.
func (r *hostResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var state model
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() || !r.Asks("delete", state.noun(), &resp.Diagnostics) {
		return
	}
	ctx, cancel := tfdiag.LimitedBy(ctx, "delete", state.Timeouts.Delete, defaultTimeout, &resp.Diagnostics)
	defer cancel()
	names := slices.Collect(maps.Keys(value.StringMap(state.HostStates)))
	hosts := r.Data.Fleet.Connections().Named(names...)
	staying, removed := r.Data.Written.Removing(TypeName, state.key())
	defer removed()
	for _, host := range hosts.Named(staying...).Names() {
		resp.Diagnostics.Append(meta.KeptForAnother(state.noun(), host))
	}
	failed := r.remove(ctx, hosts.Without(staying...), &state)
	resp.Diagnostics.Append(onhosts.Failures("delete", state.noun(), failed)...)
}

// ImportState accepts "<network>/<mac or duid>". Read fills in the rest.
func (r *hostResource) ImportState(
	ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse,
) {
	networkName, key, ok := strings.Cut(req.ID, "/")
	if !ok || key == "" {
		resp.Diagnostics.AddError("Invalid import ID", fmt.Sprintf(
			"%q isn't a network and a MAC address or DUID, such as \"lan/52:54:00:12:34:56\".", req.ID))
		return
	}
	m := model{Network: types.StringValue(networkName), MAC: types.StringValue(key)}
	if !r.Asks("import", m.noun(), &resp.Diagnostics) {
		return
	}
	answers := r.askHosts(ctx, &m)
	for _, a := range hostset.Found(answers) {
		have := a.Value.Any()
		if have == nil {
			continue
		}
		for name, v := range map[string]types.String{
			"id": types.StringValue(m.key()), "network": m.Network, "mac": value.NewStringOrNull(have.MAC),
			"duid": value.NewStringOrNull(have.DUID), "ip": types.StringValue(have.IP),
			"name": value.NewStringOrNull(have.Name),
		} {
			resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root(name), v)...)
		}
		return
	}
	resp.Diagnostics.Append(onhosts.Failures("import", m.noun(), hostset.Silent(answers))...)
	if !resp.Diagnostics.HasError() {
		resp.Diagnostics.Append(tfdiag.Failure{
			Verb: "import", Noun: m.noun(), Err: onhosts.NotFound(noun, req.ID),
		}.Error())
	}
}
