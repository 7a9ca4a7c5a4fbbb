package network

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/network"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/onhosts"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// Read compares what the hosts have with what was applied.
func (r *networkResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var state model
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() || !r.Asks("read", noun(state.Name), &resp.Diagnostics) {
		return
	}
	var declared []string
	_, diags := meta.ReadPrivate(ctx, req.Private, declaredKey, &declared)
	resp.Diagnostics.Append(diags...)
	var left []string
	_, diags = meta.ReadPrivate(ctx, req.Private, undeclaredReservationsKey, &left)
	resp.Diagnostics.Append(diags...)
	asked := onhosts.Asked(r.Data, state.Hosts, state.HostStates)
	r.Data.Fleet.ReadAhead(asked.Names())
	answers := hostset.Ask(ctx, asked, func(ctx context.Context, h *libvirt.Host) (*network.State, error) {
		return network.Read(ctx, h, state.Name.ValueString())
	})
	answers, last, diags := onhosts.OwnRecorded(ctx, noun(state.Name), asked, answers, state.HostStates,
		func(s network.State) string { return s.UUID }, resp.Private)
	resp.Diagnostics.Append(diags...)
	resp.Diagnostics.Append(state.takeSettings(ctx, hostset.Found(answers), declared, left)...)
	imported := state.HostStates.IsNull()
	if imported { // Until the first apply, all hosts are compared with the first one.
		declared = state.sameEverywhere()
	}
	spec, _, diags := state.spec(declared)
	resp.Diagnostics.Append(diags...)
	spec = withoutReservations(spec, left)
	o, diags := onhosts.Observe(onhosts.Question[network.State]{
		Data: r.Data, Noun: noun(state.Name), Hosts: state.Hosts, Last: last, Answers: answers,
		State: func(s network.State) string { return hostState(&s, spec, value.Bool(state.Autostart)) },
	})
	resp.Diagnostics.Append(diags...)
	if o.Concludes(ctx, resp, "network", state.Name.ValueString(), false) {
		return
	}
	if imported {
		resp.Diagnostics.Append(meta.WritePrivate(ctx, resp.Private, declaredKey, declared)...)
	}
	state.HostStates = value.NewStringMap(o.States)
	resp.Diagnostics.Append(resp.State.Set(ctx, state)...)
}

// sameEverywhere returns the names of the blocks that an imported network has, without the bridge if each host chooses
// its name.
func (m *model) sameEverywhere() []string {
	return slices.DeleteFunc(m.declaredBlocks(), func(name string) bool { return name == "bridge" && m.createsBridge() })
}

// takeSettings sets the model to the network of a host: a host that has everything as declared, or else the first host.
// So if no host has the network as it was applied, the difference shows as drift. left are the addresses whose
// reservations aren't declared.
func (m *model) takeSettings(
	ctx context.Context, found []hostset.Answer[network.State], declared, left []string,
) (diags diag.Diagnostics) {
	if len(found) == 0 {
		return nil
	}
	spec, _, diags := m.spec(declared)
	spec = withoutReservations(spec, left)
	reference := found[0].Value
	for _, a := range found {
		if len(a.Value.Differences(spec)) == 0 {
			reference = a.Value
			break
		}
	}
	have := reference.Spec
	// A difference that only the active network has is drift, too.
	if reference.Live != nil && len(network.Differences(have, spec)) == 0 {
		have = *reference.Live
	}
	diags.Append(m.fromSpec(ctx, have, slices.Sorted(maps.Keys(m.blocks())))...)
	if m.Active.IsNull() {
		m.Active = types.BoolValue(reference.Active)
	}
	if !slices.ContainsFunc(found, func(a hostset.Answer[network.State]) bool {
		return a.Value.Autostart == m.Autostart.ValueBool() && !m.Autostart.IsNull()
	}) {
		m.Autostart = types.BoolValue(reference.Autostart)
	}
	return diags
}

// hostState returns the value of host_states for a host: its state, and what differs from what was applied.
func hostState(s *network.State, declared network.Spec, autostart *bool) string {
	state := onhosts.Inactive
	if s.Active {
		state = onhosts.Active
	}
	differences := s.Differences(declared)
	if autostart != nil && *autostart != s.Autostart {
		differences = append(differences, "autostart")
	}
	if s.Transient {
		differences = append(differences, "persistence")
	}
	if len(differences) > 0 {
		state += ", differs in " + strings.Join(differences, ", ")
	}
	return state
}
