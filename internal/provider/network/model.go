package network

import (
	"context"
	"maps"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/network"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/onhosts"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// model is the resource in Terraform.
type model struct {
	ID             types.String   `tfsdk:"id"`
	Name           types.String   `tfsdk:"name"`
	Hosts          types.Set      `tfsdk:"hosts"`
	HostStates     types.Map      `tfsdk:"host_states"`
	Active         types.Bool     `tfsdk:"active"`
	Autostart      types.Bool     `tfsdk:"autostart"`
	UpdatePolicy   types.String   `tfsdk:"update_policy"`
	Forward        types.Object   `tfsdk:"forward"`
	Bridge         types.String   `tfsdk:"bridge"`
	MTU            types.Int64    `tfsdk:"mtu"`
	Domain         types.Object   `tfsdk:"domain"`
	DNS            types.Object   `tfsdk:"dns"`
	IPs            types.List     `tfsdk:"ips"`
	Routes         types.List     `tfsdk:"routes"`
	PortGroups     types.Map      `tfsdk:"port_groups"`
	VLAN           types.Object   `tfsdk:"vlan"`
	VirtualPort    types.Object   `tfsdk:"virtual_port"`
	Bandwidth      types.Object   `tfsdk:"bandwidth"`
	DnsmasqOptions types.List     `tfsdk:"dnsmasq_options"`
	Timeouts       timeouts.Value `tfsdk:"timeouts"`
}

// The values of update_policy.
const (
	updateLive    = "Live"
	updateRestart = "Restart"
)

// createsBridge reports whether libvirt creates the network's bridge, instead of using an existing one.
func (m *model) createsBridge() bool {
	spec, known, _ := m.spec([]string{"forward"})
	if !known {
		return false
	}
	return spec.Forward == nil || slices.Contains(network.BridgeModes, spec.Forward.Mode)
}

// hostBridge returns the bridge of the host that the network is connected to; "" if it has none or that isn't known.
func (m *model) hostBridge() string {
	spec, known, _ := m.spec([]string{"forward"})
	if !known || spec.Forward == nil || spec.Forward.Mode != network.ModeBridge {
		return ""
	}
	return m.Bridge.ValueString()
}

// keepUndeclared plans that undeclared attributes stay as they are.
func (m *model) keepUndeclared(config, state model) {
	for name := range m.blocks() {
		if config.block(name).IsNull() {
			m.setBlock(name, state.block(name))
		}
	}
	if config.Autostart.IsNull() {
		m.Autostart = state.Autostart
	}
}

// blocks returns the attributes that libvirt keeps in the definition, by name. network.Spec has the same names.
func (m *model) blocks() map[string]any {
	return map[string]any{
		"forward": &m.Forward, "bridge": &m.Bridge, "mtu": &m.MTU, "domain": &m.Domain, "dns": &m.DNS, "ips": &m.IPs,
		"routes": &m.Routes, "port_groups": &m.PortGroups, "vlan": &m.VLAN, "virtual_port": &m.VirtualPort,
		"bandwidth": &m.Bandwidth, "dnsmasq_options": &m.DnsmasqOptions,
	}
}

// block returns the value of a block.
func (m *model) block(name string) attr.Value {
	switch v := m.blocks()[name].(type) {
	case *types.Object:
		return *v
	case *types.Map:
		return *v
	case *types.List:
		return *v
	case *types.String:
		return *v
	case *types.Int64:
		return *v
	}
	return nil
}

// setBlock sets a block to a value of its type.
func (m *model) setBlock(name string, to attr.Value) {
	switch v := m.blocks()[name].(type) {
	case *types.Object:
		*v, _ = to.(types.Object)
	case *types.Map:
		*v, _ = to.(types.Map)
	case *types.List:
		*v, _ = to.(types.List)
	case *types.String:
		*v, _ = to.(types.String)
	case *types.Int64:
		*v, _ = to.(types.Int64)
	}
}

// declaredBlocks returns the names of the blocks that aren't null, sorted.
func (m *model) declaredBlocks() []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(m.blocks())) {
		if !m.block(name).IsNull() {
			names = append(names, name)
		}
	}
	return names
}

// spec returns what the named blocks declare, and whether all of it is known. Blocks with unknown parts are left out.
func (m *model) spec(names []string) (spec network.Spec, known bool, diags diag.Diagnostics) {
	plain := map[string]any{}
	known = true
	for _, name := range names {
		v, all := value.Plain(m.block(name))
		known = known && all
		if all && v != nil {
			plain[name] = v
		}
	}
	if err := value.Decode(plain, &spec); err != nil {
		diags.AddError("Invalid network", err.Error())
	}
	return spec, known, diags
}

// plannedPortGroups returns the names of the declared port groups, as PlannedNetwork has them.
func (m *model) plannedPortGroups() []string {
	switch {
	case m.PortGroups.IsNull():
		return nil
	case m.PortGroups.IsUnknown():
		return []string{"", status.AnyPortGroup}
	default:
		return append([]string{""}, slices.Sorted(maps.Keys(m.PortGroups.Elements()))...)
	}
}

// fromSpec sets the named blocks to those of a host. A block that means the same keeps its notation.
func (m *model) fromSpec(ctx context.Context, have network.Spec, names []string) diag.Diagnostics {
	before, _, diags := m.spec(names)
	for _, name := range names {
		current := m.block(name)
		if !current.IsNull() && !current.IsUnknown() && network.Same(name, have, before) {
			continue
		}
		v, err := value.Encode(current.Type(ctx), fieldOf(have, name))
		if err != nil {
			diags.AddAttributeError(path.Root(name), "Unable to read network", err.Error())
			continue
		}
		m.setBlock(name, v)
	}
	return diags
}

// fieldOf returns one block of a Spec in the form of encoding/json, and nil if the Spec doesn't have it.
func fieldOf(spec network.Spec, name string) any {
	var all map[string]any
	if err := value.Decode(spec, &all); err != nil {
		return nil
	}
	return all[name]
}

// wanted returns what the network is to be on every host.
func (m *model) wanted(spec network.Spec) network.Wanted {
	return network.Wanted{Spec: spec, Active: m.Active.ValueBool(), Autostart: value.Bool(m.Autostart)}
}

// healthyState returns the value of host_states for a host where everything is as declared.
func (m *model) healthyState() string {
	if m.Active.ValueBool() || m.Active.IsNull() || m.Active.IsUnknown() {
		return onhosts.Active
	}
	return onhosts.Inactive
}
