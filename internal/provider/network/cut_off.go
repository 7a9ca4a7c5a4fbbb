package network

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/network"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/onhosts"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// cutOff returns, by host, the VMs that a start of the planned network doesn't connect, because it was stopped or
// removed while they ran. A host that doesn't answer is left out.
func cutOff(ctx context.Context, targets hostset.Set, plan model) map[string][]string {
	if !plan.Active.ValueBool() || plan.Name.IsUnknown() || onhosts.Undecided(plan.Hosts) {
		return nil
	}
	answers := hostset.Ask(ctx, targets, func(ctx context.Context, h *libvirt.Host) (*[]network.User, error) {
		users, err := network.CutOff(ctx, h, plan.Name.ValueString())
		return &users, err
	})
	all := map[string][]string{}
	for _, a := range hostset.Found(answers) {
		for _, u := range *a.Value {
			all[a.Host] = append(all[a.Host], u.Name)
		}
	}
	return all
}

// warnOfCutOff warns of the hosts on which the network is started without VMs that run there. An apply plans again, and
// so repeats it.
func warnOfCutOff(ctx context.Context, targets hostset.Set, plan model) (diags diag.Diagnostics) {
	all := cutOff(ctx, targets, plan)
	var hosts []string
	for _, host := range value.Keys(all) {
		hosts = append(hosts, fmt.Sprintf("It is started on host %s, where it was stopped while these virtual machines ran: "+
			"%s.", host, strings.Join(all[host], ", ")))
	}
	if len(hosts) > 0 { // Terraform shows only one of several warnings with the same title.
		diags.AddWarning("Network is interrupted: "+plan.Name.ValueString(), strings.Join(hosts, "\n")+"\n\nlibvirt "+
			"doesn't connect them to it again. They are cut off until they are shut down and started again.")
	}
	return diags
}

// warnOfPortGroups warns of VMs whose interfaces have a port group that the network loses. libvirt starts them without
// the settings of that port group, such as its VLAN.
func warnOfPortGroups(ctx context.Context, targets hostset.Set, plan, state model) (diags diag.Diagnostics) {
	if plan.PortGroups.IsUnknown() || onhosts.Undecided(plan.Hosts) {
		return nil
	}
	stays := plan.PortGroups.Elements()
	for _, group := range slices.Sorted(maps.Keys(state.PortGroups.Elements())) {
		if _, is := stays[group]; is {
			continue
		}
		use := onhosts.InUse(ctx, targets, fmt.Sprintf("port group %q of %s", group, noun(plan.Name)),
			func(ctx context.Context, h *libvirt.Host) ([]string, error) {
				return userNames(network.PortGroupUsers(ctx, h, plan.Name.ValueString(), group))
			})
		if len(use) > 0 {
			diags.AddAttributeWarning(path.Root("port_groups"), "Port group is in use: "+group, strings.Join(use, " ")+" It is "+
				"removed all the same: from their next start on, these interfaces lack its settings, such as its VLAN. Keep the "+
				"port group, or give the interfaces another port_group, for example in this apply.")
		}
	}
	return diags
}
