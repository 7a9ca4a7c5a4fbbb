package network

import (
	"context"
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/tfdiag"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// bridgeInUse is the title of errors and warnings about a bridge that libvirt can't create for a network.
const bridgeInUse = "Bridge is in use"

// checkBridge returns an error if the plan has two networks with one bridge on a host, which libvirt is to create for
// both, and a warning if the host has the bridge now: the same apply may remove what it belongs to. formerly is the
// network's name in the state.
func (r *networkResource) checkBridge(
	ctx context.Context, targets hostset.Set, name, formerly string,
) (diags diag.Diagnostics) {
	bridge := ""
	for _, host := range targets.Names() {
		bridge = r.Data.Planned.Networks(host)[name].Bridge
	}
	if bridge == "" {
		return nil
	}
	remedy := fmt.Sprintf("Set bridge to another name. If %s is a bridge of the host, set forward = { mode = \"bridge\" "+
		"}.", bridge)
	has := map[string]string{}
	ask := func(ctx context.Context, h *libvirt.Host) (*string, error) {
		whose, err := ownerOfBridge(ctx, h, bridge, name, formerly)
		return &whose, err
	}
	for _, a := range hostset.Found(hostset.Ask(ctx, targets, ask)) {
		has[a.Host] = *a.Value
	}
	for _, host := range targets.Names() {
		planned := r.Data.Planned.Networks(host)
		for _, other := range value.Keys(planned) {
			if other != name && planned[other].Bridge == bridge {
				diags.AddAttributeError(path.Root("bridge"), bridgeInUse, fmt.Sprintf(
					"Networks %q and %q are both planned with the bridge %q on host %q. libvirt refuses the second one. %s %s",
					name, other, bridge, host, remedy, tfdiag.DestroyAnyway))
			}
		}
		whose, is := strings.CutPrefix(has[host], "network ")
		_, known := planned[whose]
		if has[host] == "" || is && known {
			continue
		}
		diags.AddAttributeWarning(path.Root("bridge"), bridgeInUse, fmt.Sprintf(
			"Bridge %q, which libvirt is to create for network %q on host %q, is there already: it belongs to %s. The network "+
				"can't be created or started there unless this apply removes the bridge before. %s", bridge, name, host,
			has[host], remedy))
	}
	return diags
}

// ownerOfBridge returns what a host's device that has the name of the network's bridge belongs to: another network, or
// the host itself. It returns "" if there is none, or if it is the network's own.
func ownerOfBridge(ctx context.Context, h *libvirt.Host, bridge, name, formerly string) (string, error) {
	networks, err := h.Networks(ctx)
	if err != nil {
		return "", err
	}
	for _, n := range networks {
		own := n.Name == name || n.Name == formerly
		if n.Bridge == bridge && (!own || n.Active) {
			if own {
				return "", nil
			}
			return "network " + n.Name, nil
		}
	}
	info, err := h.Info(ctx)
	if err != nil || info.Driver != "QEMU" { // libvirt's test driver has no devices of a real host.
		return "", err
	}
	if exists, _, err := h.BridgeExists(ctx, bridge); err != nil || !exists {
		return "", err
	}
	return "the host itself", nil
}
