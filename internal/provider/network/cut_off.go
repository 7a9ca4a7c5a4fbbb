package network

import (
	"context"
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"

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

// warnOfCutOff warns of each host on which the network is started without VMs that run there. An apply plans again, and
// so repeats it.
func warnOfCutOff(ctx context.Context, targets hostset.Set, plan model) (diags diag.Diagnostics) {
	all := cutOff(ctx, targets, plan)
	for _, host := range value.Keys(all) {
		diags.AddWarning("Network is interrupted", fmt.Sprintf("Network %q is started on host %s, where it was stopped "+
			"while these virtual machines ran: %s. libvirt doesn't connect them to it again. They are cut off until they are "+
			"shut down and started again.", plan.Name.ValueString(), host, strings.Join(all[host], ", ")))
	}
	return diags
}
