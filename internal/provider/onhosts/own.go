package onhosts

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/tfdiag"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// joinRemedy says what to do about an object of a host that joins the hosts of a resource.
const joinRemedy = "If it is to belong to this resource, remove the resource from the state with terraform state rm, " +
	"and import it: then the objects of all hosts that have one belong to it. Otherwise remove or rename the one on " +
	"this host, or leave the host out of hosts."

// Having returns the hosts that have the resource's object by its host_states.
func Having(last types.Map) (names []string) {
	for name, state := range value.StringMap(last) {
		if state != Missing {
			names = append(names, name)
		}
	}
	return names
}

// own leaves out the objects of hosts that had none by last, the host_states in the state, if they have another UUID
// than those of the other hosts: a host that didn't answer when the resource was created, or that was configured later,
// may have another object of the name. uuids are those that the state records, if it does. own leaves out nothing while
// last is null, which it is during an import.
func own[T any](
	answers []hostset.Answer[T], last types.Map, uuid func(T) string, uuids ...string,
) []hostset.Answer[T] {
	if last.IsNull() {
		return answers
	}
	had := Having(last)
	if len(uuids) == 0 {
		for _, a := range hostset.Found(answers) {
			if slices.Contains(had, a.Host) {
				uuids = append(uuids, uuid(*a.Value))
			}
		}
	}
	answers = slices.Clone(answers)
	for i, a := range answers {
		if a.Value != nil && !slices.Contains(had, a.Host) && !slices.Contains(uuids, uuid(*a.Value)) {
			answers[i].Value = nil
		}
	}
	return answers
}

// uuids returns the UUIDs of the resource's objects. last are the host_states in the state.
func (c Change) uuids(ctx context.Context, last types.Map) []string {
	uuids := slices.Clone(c.UUIDs)
	if c.Private != nil {
		uuids, _ = recorded(ctx, c.Private)
	}
	if len(uuids) > 0 {
		return uuids
	}
	for _, a := range c.ask(ctx, c.Data.Fleet.Connections().Named(Having(last)...)) {
		uuids = append(uuids, *a.Value)
	}
	return uuids
}

// ask returns the UUIDs of the objects that hosts have, whoever created them.
func (c Change) ask(ctx context.Context, hosts hostset.Set) []hostset.Answer[string] {
	return hostset.Found(hostset.Ask(ctx, hosts, func(ctx context.Context, h *libvirt.Host) (*string, error) {
		is, err := c.UUID(ctx, h)
		return &is, err
	}))
}

// others returns those of the hosts that have another object of the name. Hosts that have the resource's by last, the
// host_states in the state, aren't asked.
func (c Change) others(ctx context.Context, hosts hostset.Set, last types.Map) (names []string) {
	found := c.ask(ctx, hosts.Without(Having(last)...))
	if len(found) == 0 {
		return nil
	}
	uuids := c.uuids(ctx, last)
	for _, a := range found {
		h, _ := hosts.Host(a.Host)
		// What a killed run has left is the resource's.
		if begun, err := c.creation().Begun(ctx, h.Conn); err == nil && begun == *a.Value {
			continue
		}
		if !slices.Contains(uuids, *a.Value) {
			names = append(names, a.Host)
		}
	}
	return names
}

// holding returns those of the hosts that have an object with one of the UUIDs. What a killed run has left isn't one,
// because it may be unfinished.
func (c Change) holding(ctx context.Context, hosts hostset.Set, uuids []string) (names []string) {
	for _, a := range c.ask(ctx, hosts) {
		h, _ := hosts.Host(a.Host)
		begun, err := c.creation().Begun(ctx, h.Conn)
		if err == nil && begun != *a.Value && slices.Contains(uuids, *a.Value) {
			names = append(names, a.Host)
		}
	}
	return names
}

// CheckJoining returns an error for each target that gets the object by a plan and has another one of the name: a
// warning if planned, the attribute hosts, doesn't name the host. It also warns about keys that lead to other hosts,
// which a plan without a refresh hasn't heard yet. last are the host_states in the state.
func (c Change) CheckJoining(
	ctx context.Context, targets hostset.Set, planned types.Set, last types.Map,
) (diags diag.Diagnostics) {
	if Undecided(planned) {
		return nil
	}
	last, replaced := sameHosts(ctx, targets, last, c.Private)
	diags.Append(c.replacedWarning(ctx, targets, replaced, false)...)
	for _, host := range c.others(ctx, targets, last) {
		f := tfdiag.Failure{Verb: "update", Noun: c.Noun, Host: host, Err: c.exists()}
		f.Remedy = cmp.Or(c.JoinRemedy, joinRemedy)
		if planned.IsNull() {
			f.Happened = "the apply fails on this host, and changes the others"
			diags.Append(f.Warning())
			continue
		}
		f.Remedy += " " + tfdiag.DestroyAnyway
		diags.Append(f.AttributeError(path.Root(HostsName)))
	}
	return diags
}

// exists is the error of a host that has another object of the name.
func (c Change) exists() error {
	return fmt.Errorf("%w: the host has another %s", libvirt.ErrExists, c.Noun)
}

// replacedWarning returns the warning about keys that lead to other hosts, if these don't have the object.
func (c Change) replacedWarning(
	ctx context.Context, hosts hostset.Set, others []replaced, destroyed bool,
) diag.Diagnostics {
	if len(others) == 0 {
		return nil
	}
	has := c.holding(ctx, hosts.Named(keysOf(others)...), c.uuids(ctx, types.MapNull(types.StringType)))
	return replacedWarning(c.Noun, without(others, has), destroyed)
}
