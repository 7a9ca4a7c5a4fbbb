package network

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/network"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/tfdiag"
)

// undeclaredReservationsKey is the key of the private state's list of the addresses, as in ips, whose reservations the
// configuration didn't declare at the last apply. The state has those that were imported or read with other drift.
const undeclaredReservationsKey = "undeclared_reservations"

// reservationsAt returns the address of an entry of ips, its DHCP server and its reservations. known is false if the
// entry has no DHCP server, or if it is unknown.
func reservationsAt(entry attr.Value) (address string, dhcp types.Object, reservations attr.Value, known bool) {
	o, _ := entry.(types.Object)
	at, _ := o.Attributes()["address"].(types.String)
	dhcp, _ = o.Attributes()["dhcp"].(types.Object)
	reservations, known = dhcp.Attributes()["hosts"]
	return at.ValueString(), dhcp, reservations, known
}

// undeclaredReservations returns the addresses, as in ips, whose reservations the model doesn't declare.
func (m *model) undeclaredReservations() []string {
	addresses := []string{}
	for _, entry := range m.IPs.Elements() {
		if address, _, reservations, known := reservationsAt(entry); known && reservations.IsNull() {
			addresses = append(addresses, address)
		}
	}
	return addresses
}

// withReservations returns the declared ips with the state's reservations where none are declared: they stay as they
// are.
func withReservations(ctx context.Context, config, state types.List) types.List {
	if config.IsNull() || config.IsUnknown() {
		return config
	}
	kept := map[string]attr.Value{}
	for _, entry := range state.Elements() {
		if address, _, reservations, known := reservationsAt(entry); known {
			kept[address] = reservations
		}
	}
	entries := config.Elements()
	for i, entry := range entries {
		address, dhcp, reservations, known := reservationsAt(entry)
		if !known || !reservations.IsNull() || kept[address] == nil {
			continue
		}
		o, _ := entry.(types.Object)
		parts, whole := dhcp.Attributes(), o.Attributes()
		parts["hosts"] = kept[address]
		whole["dhcp"] = types.ObjectValueMust(dhcp.AttributeTypes(ctx), parts)
		entries[i] = types.ObjectValueMust(o.AttributeTypes(ctx), whole)
	}
	return types.ListValueMust(config.ElementType(ctx), entries)
}

// withoutReservations returns the spec without the reservations of those addresses.
func withoutReservations(spec network.Spec, addresses []string) network.Spec {
	spec.IPs = slices.Clone(spec.IPs)
	for i, ip := range spec.IPs {
		if ip.DHCP != nil && slices.Contains(addresses, ip.Address) {
			declared := *ip.DHCP
			declared.Hosts = nil
			spec.IPs[i].DHCP = &declared
		}
	}
	return spec
}

// checkReservations refuses a network that removes reservations which have a resource of their own and were planned
// before it. Those that are planned later are refused themselves.
func (r *networkResource) checkReservations(plan model, planned meta.PlannedNetwork) (diags diag.Diagnostics) {
	if planned.Addresses == nil {
		return nil
	}
	name := plan.Name.ValueString()
	for _, p := range r.Data.Reservations.Planned(name) {
		h := p.DHCPHost
		if h.IP == "" { // Not known yet.
			continue
		}
		if why := planned.Drops(name, h); why != "" {
			diags.Append(tfdiag.Failure{
				Verb: "plan", Noun: noun(plan.Name), Remedy: tfdiag.DestroyAnyway,
				Happened: fmt.Sprintf("A virtfleet_network_dhcp_host declares the reservation %s. %s", h, why),
			}.AttributeError(path.Root("ips")))
		}
	}
	return diags
}

// warnOfLost warns of reservations that a change of ips removes from hosts, and that the configuration hasn't declared
// in dhcp.hosts: other resources or tools have made them.
func warnOfLost(
	ctx context.Context, targets hostset.Set, config, plan, state model, private meta.PrivateReader,
) (diags diag.Diagnostics) {
	spec, known, diags := plan.spec([]string{"ips"})
	if config.IPs.IsNull() || !known || diags.HasError() {
		return diags
	}
	var undeclared []string
	_, read := meta.ReadPrivate(ctx, private, undeclaredReservationsKey, &undeclared)
	diags.Append(read...)
	before, _, _ := state.spec([]string{"ips"})
	own := map[string]bool{}
	for _, ip := range withoutReservations(before, undeclared).IPs {
		if ip.DHCP != nil {
			for _, h := range ip.DHCP.Hosts {
				own[h.Key()] = true
			}
		}
	}
	answers := hostset.Ask(ctx, targets, func(ctx context.Context, h *libvirt.Host) (*[]network.DHCPHost, error) {
		have, err := network.Read(ctx, h, plan.Name.ValueString())
		if err != nil {
			return nil, err
		}
		lost := slices.DeleteFunc(have.Lost(spec), func(h network.DHCPHost) bool { return own[h.Key()] })
		return &lost, nil
	})
	var lines []string
	for _, a := range hostset.Found(answers) {
		for _, h := range *a.Value {
			lines = append(lines, fmt.Sprintf("  - %s (host %s)", h, a.Host))
		}
	}
	if len(lines) > 0 {
		diags.AddAttributeWarning(path.Root("ips"), "Reservations are removed", fmt.Sprintf("This change of ips removes "+
			"reservations of network %q that its dhcp.hosts doesn't declare:\n\n%s\n\nIf they are virtfleet_network_dhcp_host "+
			"resources, give them addresses of the new subnet. Those of another configuration are gone until it is applied.",
			plan.Name.ValueString(), strings.Join(lines, "\n")))
	}
	return diags
}
