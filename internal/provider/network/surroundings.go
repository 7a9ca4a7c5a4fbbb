package network

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/network"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/onhosts"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/tfdiag"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// checkHosts returns what keeps the network from working on its hosts: another network has its addresses, or the host
// lacks a device that it uses. It returns nothing while it is undecided which hosts these are. formerly is the
// network's name in the state.
func (r *networkResource) checkHosts(
	ctx context.Context, targets hostset.Set, plan model, formerly string,
) (diags diag.Diagnostics) {
	if onhosts.Undecided(plan.Hosts) {
		return nil
	}
	// Unknown blocks are left out.
	spec, _, diags := plan.spec([]string{"forward", "bridge", "ips", "routes"})
	if plan.Active.ValueBool() && !plan.Name.IsUnknown() {
		diags.Append(r.checkAddresses(ctx, targets, spec, plan.Name.ValueString(), formerly)...)
	}
	if !plan.Name.IsUnknown() {
		diags.Append(r.checkBridge(ctx, targets, plan.Name.ValueString(), formerly)...)
	}
	for _, device := range spec.HostDevices() {
		diags.Append(r.checkDevice(ctx, targets, device, plan.Name.ValueString())...)
	}
	return diags
}

// checkVLANs returns an error for each declared VLAN that libvirt can't give to interfaces on some hosts. is has what
// the network is to be, undeclared blocks as they are on the hosts.
func checkVLANs(ctx context.Context, targets hostset.Set, config, is model) (diags diag.Diagnostics) {
	_, known, _ := is.spec([]string{"forward", "virtual_port"})
	spec, _, _ := is.spec([]string{"forward", "virtual_port", "vlan", "port_groups"})
	if !known || onhosts.Undecided(is.Hosts) || config.VLAN.IsNull() && config.PortGroups.IsNull() {
		return nil
	}
	answers := hostset.Ask(ctx, targets, func(ctx context.Context, h *libvirt.Host) (*[]network.Problem, error) {
		info, err := h.Info(ctx)
		if err != nil || info.Driver != "QEMU" { // libvirt's test driver has no real interfaces.
			return nil, err
		}
		problems := spec.RefusedVLANs(info.LibvirtVersion)
		return &problems, nil
	})
	hosts := map[network.Problem][]string{}
	for _, a := range hostset.Found(answers) {
		for _, p := range *a.Value {
			hosts[p] = append(hosts[p], a.Host)
		}
	}
	for p, names := range hosts {
		diags.AddAttributeError(path.Root(p.Block), "Invalid network", fmt.Sprintf("%s\n\nHost: %s\n\n%s", p.Reason,
			strings.Join(names, ", "), tfdiag.DestroyAnyway))
	}
	return diags
}

// anotherNetwork is the title of errors and warnings about networks of one host that have addresses in common.
const anotherNetwork = "Address range of another network"

// checkAddresses returns an error if the plan has two networks with one subnet on a host, and a warning if the host has
// the other network now: the same apply may change or remove that one. Subnets that overlap are a warning.
func (r *networkResource) checkAddresses(
	ctx context.Context, targets hostset.Set, spec network.Spec, name, formerly string,
) (diags diag.Diagnostics) {
	addresses := spec.Addresses()
	if len(addresses)+len(spec.Routes) == 0 {
		return nil
	}
	const remedy = "libvirt doesn't start two networks of one subnet on a host. Set address of ips to one of another " +
		"subnet."
	overlap := func(host, other string, others []netip.Prefix) {
		if own, with, found := network.Overlap(addresses, others); found {
			diags.AddAttributeWarning(path.Root("ips"), anotherNetwork, fmt.Sprintf(
				"On host %q network %q has the subnet %s, and network %q has %s. libvirt starts both, but the host reaches an "+
					"address that both have in one of them only. Set address of ips to one of another subnet.", host, name, own,
				other, with))
		}
	}
	active := map[string]map[string]network.ActiveNetwork{}
	for _, a := range hostset.Found(hostset.Ask(ctx, targets,
		func(ctx context.Context, h *libvirt.Host) (*map[string]network.ActiveNetwork, error) {
			is, err := network.ActiveNetworks(ctx, h)
			return &is, err
		})) {
		active[a.Host] = *a.Value
	}
	for _, host := range targets.Names() {
		// If another network is created or changed by the same apply, it is among these, or its own plan finds this one. If
		// it stays as it is, it may be planned after this one. Then the addresses that the host has now give a warning.
		planned := r.Data.Planned.Networks(host)
		for _, other := range value.Keys(planned) {
			subnet := network.SameSubnet(addresses, planned[other].Addresses)
			switch {
			case other == name || !planned[other].Active:
			case subnet != "":
				diags.AddAttributeError(path.Root("ips"), anotherNetwork, fmt.Sprintf(
					"Networks %q and %q are both planned with the subnet %s on host %q. %s %s", name, other, subnet, host, remedy,
					tfdiag.DestroyAnyway))
			default:
				overlap(host, other, planned[other].Addresses)
			}
		}
		for _, other := range value.Keys(active[host]) {
			_, known := planned[other]
			subnet := network.SameSubnet(addresses, active[host][other].Addresses)
			switch {
			case known || other == name || other == formerly:
			case subnet != "":
				diags.AddAttributeWarning(path.Root("ips"), anotherNetwork, fmt.Sprintf(
					"Network %q has the subnet %s on host %q now. Network %q can't be started there unless this apply removes or "+
						"changes that one before. %s", other, subnet, host, name, remedy))
			default:
				overlap(host, other, active[host][other].Addresses)
			}
		}
	}
	diags.Append(checkRoutes(ctx, targets, spec, name, active)...)
	return diags
}

// routesTimeout is how long a plan waits for the routes of hosts.
const routesTimeout = 10 * time.Second

// checkRoutes returns an error for each host that has a route of its own to a subnet of the network, for example
// because the subnet is that of its network card. active are the active networks of the hosts that answered. Hosts
// whose routes or active networks are unknown are left out: a route may be that of a network's bridge. So are hosts on
// which the network is active already.
func checkRoutes(
	ctx context.Context, targets hostset.Set, spec network.Spec, name string,
	active map[string]map[string]network.ActiveNetwork,
) (diags diag.Diagnostics) {
	ctx, cancel := context.WithTimeout(ctx, routesTimeout)
	defer cancel()
	var mu sync.Mutex
	routes := map[string][]network.HostRoute{}
	_ = hostset.Each(ctx, targets, func(ctx context.Context, h hostset.Host) error {
		all, err := network.HostRoutes(ctx, h)
		mu.Lock()
		defer mu.Unlock()
		routes[h.Name] = all
		return err
	})
	for _, host := range targets.Names() {
		networks, answered := active[host]
		if !answered {
			continue
		}
		var bridges []string
		for _, is := range networks {
			bridges = append(bridges, is.Bridge)
		}
		with, found := spec.Collision(routes[host], bridges)
		if !found || network.SameSubnet([]netip.Prefix{with.Subnet}, networks[name].Addresses) != "" {
			continue
		}
		diags.AddAttributeError(path.Root("ips"), "Address range of the host", fmt.Sprintf(
			"Host %q has a route to %s through its interface %q. libvirt doesn't start network %q there: it would say that the "+
				"network is already in use by interface %[3]s. Set address of ips, or destination of routes, to another subnet. %s",
			host, with.Subnet, with.Interface, name, tfdiag.DestroyAnyway))
	}
	return diags
}

// checkDevice returns a warning that hosts lack a device which the network uses. libvirt starts most of these networks
// all the same, but no VM that is connected to them.
func (r *networkResource) checkDevice(
	ctx context.Context, targets hostset.Set, device, name string,
) (diags diag.Diagnostics) {
	planned := r.Data.Planned.All()
	answers := hostset.Ask(ctx, targets, func(ctx context.Context, h *libvirt.Host) (*bool, error) {
		info, err := h.Info(ctx)
		if err != nil || info.Driver != "QEMU" { // libvirt's test driver has no devices of a real host.
			return nil, err
		}
		exists, known, err := h.BridgeExists(ctx, device)
		lacks := known && !exists
		return &lacks, err
	})
	var lack []string
	for _, a := range hostset.Found(answers) {
		if *a.Value && !planned.On(a.Host, status.Bridge, device) {
			lack = append(lack, a.Host)
		}
	}
	if len(lack) > 0 {
		diags.AddWarning("Network device not found", fmt.Sprintf("Network %q uses the network device %q, which these hosts "+
			"don't have: %s. VMs in the network don't start there, or can't reach anything. Create the device on the hosts, "+
			"correct its name in bridge or forward, or set hosts to those that have it.", name, device,
			strings.Join(lack, ", ")))
	}
	return diags
}
