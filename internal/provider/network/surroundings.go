package network

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

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
	spec, _, diags := plan.spec([]string{"forward", "bridge", "ips"})
	if plan.Active.ValueBool() && !plan.Name.IsUnknown() {
		diags.Append(r.checkAddresses(ctx, targets, spec, plan.Name.ValueString(), formerly)...)
	}
	for _, device := range spec.HostDevices() {
		diags.Append(r.checkDevice(ctx, targets, device, plan.Name.ValueString())...)
	}
	return diags
}

// checkAddresses returns an error if the plan has two networks with one subnet on a host, and a warning if the host has
// the other network now: the same apply may change or remove that one.
func (r *networkResource) checkAddresses(
	ctx context.Context, targets hostset.Set, spec network.Spec, name, formerly string,
) (diags diag.Diagnostics) {
	addresses := spec.Addresses()
	if len(addresses) == 0 {
		return nil
	}
	const remedy = "libvirt doesn't start two networks of one subnet on a host. Set address of ips to one of another " +
		"subnet."
	active := map[string]map[string][]netip.Prefix{}
	for _, a := range hostset.Found(hostset.Ask(ctx, targets,
		func(ctx context.Context, h *libvirt.Host) (*map[string][]netip.Prefix, error) {
			is, err := network.ActiveAddresses(ctx, h)
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
			if other != name && subnet != "" && planned[other].Active {
				diags.AddAttributeError(path.Root("ips"), "Address range of another network", fmt.Sprintf(
					"Networks %q and %q are both planned with the subnet %s on host %q. %s %s", name, other, subnet, host, remedy,
					tfdiag.DestroyAnyway))
			}
		}
		for _, other := range value.Keys(active[host]) {
			_, known := planned[other]
			subnet := network.SameSubnet(addresses, active[host][other])
			if !known && other != name && other != formerly && subnet != "" {
				diags.AddAttributeWarning(path.Root("ips"), "Address range of another network", fmt.Sprintf(
					"Network %q has the subnet %s on host %q now. Network %q can't be started there unless this apply removes or "+
						"changes that one before. %s", other, subnet, host, name, remedy))
			}
		}
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
