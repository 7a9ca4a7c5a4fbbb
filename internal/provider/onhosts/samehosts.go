package onhosts

import (
	"context"
	"maps"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// hostsKey is the key of the private state's map from the name of each host that has the resource's object to libvirt's
// UUID of that host.
const hostsKey = "host_uuids"

// sameHosts returns states, the resource's host_states, with Missing for each name that leads to another host than it
// did when private was written: the object which that host has is the resource's only if its UUID says so. A host that
// doesn't answer stays as it is. sameHosts writes nothing: a plan that did would have the apply forget the former host.
func sameHosts(ctx context.Context, hosts hostset.Set, states types.Map, private meta.PrivateReader) types.Map {
	if private == nil {
		return states
	}
	var known map[string]string
	_, _ = meta.ReadPrivate(ctx, private, hostsKey, &known)
	if len(known) == 0 {
		return states
	}
	ofResource, is := slices.Collect(maps.Values(known)), value.StringMap(states)
	for name, uuid := range uuidsOf(ctx, hosts, states) {
		if known[name] != "" && !slices.Contains(ofResource, uuid) {
			is[name] = Missing
		}
	}
	return value.NewStringMap(is)
}

// recordHosts records in private which hosts have the resource's object by states, its host_states. What is recorded of
// a host that doesn't answer stays.
func recordHosts(ctx context.Context, hosts hostset.Set, states types.Map, private meta.Private) diag.Diagnostics {
	if private == nil {
		return nil
	}
	var known map[string]string
	_, diags := meta.ReadPrivate(ctx, private, hostsKey, &known)
	had, now := having(states), uuidsOf(ctx, hosts, states)
	for name, uuid := range known {
		if now[name] == "" && slices.Contains(had, name) {
			now[name] = uuid
		}
	}
	if !maps.Equal(now, known) {
		diags.Append(meta.WritePrivate(ctx, private, hostsKey, now)...)
	}
	return diags
}

// uuidsOf returns libvirt's UUIDs of those of the hosts that have the resource's object by its host_states.
func uuidsOf(ctx context.Context, hosts hostset.Set, states types.Map) map[string]string {
	uuids := map[string]string{}
	had := hosts.Named(having(states)...)
	answers := hostset.Ask(ctx, had, func(ctx context.Context, h *libvirt.Host) (*string, error) {
		uuid, err := hostset.Host{Conn: h}.UUID(ctx)
		return &uuid, err
	})
	for _, a := range hostset.Found(answers) {
		if *a.Value != "" { // libvirt's test driver has none.
			uuids[a.Host] = *a.Value
		}
	}
	return uuids
}
