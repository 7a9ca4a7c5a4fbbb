package onhosts

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

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

// replaced is a key of the provider's hosts that leads to another host than when the private state was written.
type replaced struct {
	key string
	// was and is are libvirt's UUIDs of the host that it led to, and of the one that it leads to.
	was, is string
	// now is the key that leads to the former host now, "" if none of the hosts that were asked does.
	now string
}

// sameHosts returns states, the resource's host_states, with Missing for each name that leads to another host than it
// did when private was written: the object which that host has is the resource's only if its UUID says so. A host that
// doesn't answer stays as it is. sameHosts writes nothing: a plan that did would have the apply forget the former host.
func sameHosts(
	ctx context.Context, hosts hostset.Set, states types.Map, private meta.PrivateReader,
) (types.Map, []replaced) {
	if private == nil {
		return states, nil
	}
	var known map[string]string
	_, _ = meta.ReadPrivate(ctx, private, hostsKey, &known)
	if len(known) == 0 {
		return states, nil
	}
	ofResource, is := slices.Collect(maps.Values(known)), value.StringMap(states)
	var others []replaced
	now := uuidsOf(ctx, hosts.Named(Having(states)...))
	for _, name := range value.Keys(now) {
		if known[name] != "" && !slices.Contains(ofResource, now[name]) {
			is[name] = Missing
			others = append(others, replaced{key: name, was: known[name], is: now[name]})
		}
	}
	if len(others) > 0 { // Only then the other hosts are asked, too.
		all := uuidsOf(ctx, hosts)
		for i, other := range others {
			for name, uuid := range all {
				if uuid == other.was {
					others[i].now = name
				}
			}
		}
	}
	return value.NewStringMap(is), others
}

// replacedWarning says that keys lead to other hosts, which don't have the object of the resource. Without that, a
// resource all of whose hosts were replaced would leave the state without a word. destroyed says that it leaves the
// state because it is destroyed.
func replacedWarning(noun string, others []replaced, destroyed bool) (diags diag.Diagnostics) {
	if destroyed { // A former host that was asked has lost the object like all others.
		others = slices.DeleteFunc(slices.Clone(others), func(o replaced) bool { return o.now != "" })
	}
	if len(others) == 0 {
		return nil
	}
	var lines []string
	left := false
	for _, o := range others {
		line := fmt.Sprintf("hosts.%s led to the host with UUID %s, and now leads to the one with UUID %s.",
			o.key, o.was, o.is)
		if o.now != "" {
			line += fmt.Sprintf(" The %s stays this resource's on the former host, which is hosts.%s now.", noun, o.now)
		} else {
			line += fmt.Sprintf(" The %s stays on the former host.", noun)
			left = true
		}
		lines = append(lines, line)
	}
	if destroyed {
		lines = append(lines, "To remove it there too, do so by hand.")
	} else {
		lines = append(lines, "What the new host has under that name isn't this resource's. If the new host is meant, "+
			"apply: that creates the object there, unless the host has another one of the name, or isn't in hosts any more. "+
			"If it isn't meant, correct its uri in the provider's hosts before you apply.")
		if left {
			lines = append(lines, "On the former host, remove the object by hand. Or keep it as this resource's: before you "+
				"apply, give that host a key of its own, which hosts of the resource includes.")
		}
	}
	diags.AddWarning("Key leads to another host: "+noun, strings.Join(lines, "\n\n"))
	return diags
}

// without returns the replaced keys except those of the hosts.
func without(others []replaced, hosts []string) []replaced {
	return slices.DeleteFunc(slices.Clone(others), func(o replaced) bool { return slices.Contains(hosts, o.key) })
}

// keysOf returns the keys that lead to other hosts.
func keysOf(others []replaced) (keys []string) {
	for _, o := range others {
		keys = append(keys, o.key)
	}
	return keys
}

// recordHosts records in private which hosts have the resource's object by states, its host_states. What is recorded of
// a host that doesn't answer stays.
func recordHosts(ctx context.Context, hosts hostset.Set, states types.Map, private meta.Private) diag.Diagnostics {
	if private == nil {
		return nil
	}
	var known map[string]string
	_, diags := meta.ReadPrivate(ctx, private, hostsKey, &known)
	had := Having(states)
	now := uuidsOf(ctx, hosts.Named(had...))
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

// uuidsOf returns libvirt's UUIDs of the hosts that answer.
func uuidsOf(ctx context.Context, hosts hostset.Set) map[string]string {
	uuids := map[string]string{}
	answers := hostset.Ask(ctx, hosts, func(ctx context.Context, h *libvirt.Host) (*string, error) {
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
