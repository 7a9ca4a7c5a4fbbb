package networkdhcphost

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/network"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/onhosts"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/tfdiag"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// NoteSaved records the reservation of a state that Terraform saved. Before it plans, Terraform sends every saved
// state, even those that it doesn't have read.
func NoteSaved(data *meta.Data, req *tfprotov6.UpgradeResourceStateRequest) {
	var saved struct{ Network, MAC, DUID string }
	if data == nil || req.RawState == nil || json.Unmarshal(req.RawState.JSON, &saved) != nil {
		return
	}
	m := model{
		Network: types.StringValue(saved.Network), MAC: types.StringValue(saved.MAC), DUID: types.StringValue(saved.DUID),
	}
	data.Reservations.Had(m.key())
}

// takenOn returns, for each host on which another reservation keeps the resource from having its own, that reservation.
// isNew says that the resource has none yet, so that one for the same MAC address or DUID is another one, too, unless
// it is as wanted: that is what a killed run has left, or what is replaced. gone is as for Taken.
func (m *model) takenOn(
	answers []hostset.Answer[network.Reservation], isNew bool, gone func(network.DHCPHost) bool,
) map[string]error {
	taken := map[string]error{}
	for _, a := range hostset.Found(answers) {
		err := a.Value.Taken(m.Network.ValueString(), m.reservation(), gone)
		if have := a.Value.Any(); isNew && have != nil && !a.Value.Complete(m.reservation()) {
			err = &network.ReservedError{Network: m.Network.ValueString(), Have: *have}
		}
		if err != nil {
			taken[a.Host] = err
		}
	}
	return taken
}

// replacedFirst says what to do if the other reservation is the one that the resource replaces: a plan isn't told which
// of the two comes first.
const replacedFirst = " If it is the one that this apply replaces, remove create_before_destroy from the lifecycle " +
	"of this resource, and from that of resources which refer to it: a reservation of the same ip or name has to be " +
	"destroyed first. If this apply destroys it, but as another resource, apply again once it is gone."

// failures returns errors about hosts. Hosts that have the same other reservation are in one of them. If it is a plan
// that fails, the errors are about the attribute.
func (r *hostResource) failures(
	m *model, verb string, failed map[string]error, planning bool,
) (diags diag.Diagnostics) {
	rest := map[string]error{}
	hosts := map[network.DHCPHost][]string{}
	for _, host := range value.Keys(failed) {
		if reserved, is := errors.AsType[*network.ReservedError](failed[host]); is {
			hosts[reserved.Have] = append(hosts[reserved.Have], host)
			continue
		}
		rest[host] = failed[host]
	}
	others := slices.SortedFunc(maps.Keys(hosts), func(a, b network.DHCPHost) int {
		return strings.Compare(a.String(), b.String())
	})
	for _, have := range others {
		f := r.reservedFailure(m, verb, have, hosts[have])
		if !planning {
			if verb == "create" {
				f.Remedy += replacedFirst
			}
			f.Happened += " Nothing of that one was changed."
			diags.Append(f.Error())
			continue
		}
		f.Remedy += " " + tfdiag.DestroyAnyway
		diags.Append(f.AttributeError(path.Root(m.attributeOf(have))))
	}
	return append(diags, onhosts.Failures(verb, m.noun(), rest)...)
}

// attributeOf returns the attribute whose value another reservation has.
func (m *model) attributeOf(have network.DHCPHost) string {
	return cmp.Or(m.reservation().Shares(have), "ip")
}

// reservedFailure is the failure because hosts have another reservation with a value of this one.
func (r *hostResource) reservedFailure(m *model, verb string, have network.DHCPHost, hosts []string) tfdiag.Failure {
	attribute, name := m.attributeOf(have), m.Network.ValueString()
	f := tfdiag.Failure{
		Verb: verb, Noun: m.noun(), Host: strings.Join(hosts, ", "),
		Happened: fmt.Sprintf("The %s of this reservation already exists in another reservation of network %q: %s.",
			attribute, name, have),
		Remedy: fmt.Sprintf("Set %s to another value, or change or remove the other reservation first, in an "+
			"apply of its own, with -target.",
			attribute),
	}
	if have.MAC+have.DUID == "" {
		return f
	}
	if id := name + "/" + have.Key(); r.Data.Reservations.IsHad(id) {
		f.Remedy += fmt.Sprintf(" The virtfleet_network_dhcp_host that has the other one has the id %s.", id)
		return f
	}
	f.Remedy += fmt.Sprintf(" If no resource has the other one, you can import it: terraform import <address> %s/%s.",
		name, have.Key())
	return f
}

// checkTaken returns errors about other reservations that hosts have with a value of this one. An existing reservation
// that stays as it is gets a warning instead: the same apply may remove the other one. So does a new one if nothing was
// read: an apply may plan it again, and isn't told what it replaces. It may also be the first plan. Create then fails.
func (r *hostResource) checkTaken(
	ctx context.Context, verb string, plan, state *model, changes bool, earlier []meta.PlannedReservation,
) diag.Diagnostics {
	if r.Data.Unknown || plan.Network.IsUnknown() || plan.IP.IsUnknown() || plan.MAC.IsUnknown() ||
		plan.DUID.IsUnknown() {
		return nil
	}
	if verb == "create" && state.Network.ValueString() != "" {
		r.Data.Reservations.Replaced(state.key())
	}
	isNew := verb == "create" && !r.Data.Reservations.IsHad(plan.key())
	answers := r.askHosts(ctx, plan)
	taken := plan.takenOn(answers, isNew, func(have network.DHCPHost) bool {
		return r.Data.Reservations.IsReplaced(plan.Network.ValueString() + "/" + have.Key())
	})
	if verb == "create" || changes {
		if diags := r.checkPlanned(ctx, plan, state, earlier, answers, taken); diags.HasError() {
			return diags
		}
	}
	switch {
	case isNew && len(taken) == 0:
		return plan.warnOfExisting(answers)
	case r.networkHostsChange(plan.Network.ValueString()): // The other reservation may go with the network.
		return nil
	}
	if verb == "update" && changes || verb == "create" && r.Data.Refreshed.Load() {
		return r.unlessFreed(ctx, plan, verb, taken)
	}
	var warnings diag.Diagnostics
	for _, d := range r.failures(plan, verb, taken, false) {
		warnings.AddWarning(d.Summary(), d.Detail()+" The apply fails unless it removes the other reservation first.")
	}
	return warnings
}

// warnOfExisting warns of hosts that have a new reservation as it is wanted. An apply plans again, and doesn't know
// what it replaces, so that this can't be an error.
func (m *model) warnOfExisting(answers []hostset.Answer[network.Reservation]) (diags diag.Diagnostics) {
	var hosts []string
	for _, a := range hostset.Found(answers) {
		if a.Value.Any() != nil {
			hosts = append(hosts, a.Host)
		}
	}
	if len(hosts) > 0 {
		diags.Append(onhosts.TakenOver(path.Root(m.attributeOf(m.reservation())), fmt.Sprintf(
			"Network %q has this reservation on these hosts already: %s (%s). The new resource takes it over.",
			m.Network.ValueString(), strings.Join(hosts, ", "), m.reservation())))
	}
	return diags
}

// unlessFreed returns the errors about other reservations. One that a resource in the state has may be changed or
// removed by the same plan, in whatever order Terraform plans and applies them: its error holds once it is planned to
// stay. Create and Update look again.
func (r *hostResource) unlessFreed(
	ctx context.Context, m *model, verb string, taken map[string]error,
) (diags diag.Diagnostics) {
	byID := map[string]map[string]error{}
	for host, err := range taken {
		id := ""
		if reserved, is := errors.AsType[*network.ReservedError](err); is {
			id = m.Network.ValueString() + "/" + reserved.Have.Key()
		}
		if byID[id] == nil {
			byID[id] = map[string]error{}
		}
		byID[id][host] = err
	}
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		failures := r.failures(m, verb, byID[id], true)
		if r.Data.Reservations.IsHad(id) && id != m.key() {
			if r.Data.Refreshed.Load() {
				r.Data.Reservations.AwaitPlan(ctx, id) // The error belongs to this resource, which changes.
			}
			failures = r.Data.Reservations.IfKept(id, failures)
		}
		diags.Append(failures...)
	}
	return diags
}

// add adds the reservation on hosts that had none when they were asked, and completes it on those that had it. If
// another run has added one meanwhile, it removes again what it has added.
func (r *hostResource) add(
	ctx context.Context, found []hostset.Answer[network.Reservation], m *model,
) (failed map[string]error, targets hostset.Set) {
	var names, had []string
	for _, a := range found {
		names = append(names, a.Host)
		if a.Value.Any() != nil {
			had = append(had, a.Host)
		}
	}
	lock, name, want := network.LockFunc(r.Data.Fleet.LockShared), m.Network.ValueString(), m.reservation()
	targets = r.Data.Fleet.Connections().Named(names...)
	written := r.Data.Written.Writing(TypeName, m.key())
	defer func() { written(targets.Without(value.Keys(failed)...).Names()) }()
	failed = hostset.Each(ctx, targets, func(ctx context.Context, h hostset.Host) error {
		if slices.Contains(had, h.Name) {
			return network.PutReservation(ctx, lock, h.Conn, name, want)
		}
		return network.AddReservation(ctx, lock, h.Conn, name, want)
	})
	if !anyExists(failed) {
		return failed, targets
	}
	ctx, cancel := hostset.CleanupContext(ctx)
	defer cancel()
	added := targets.Without(had...).Without(value.Keys(failed)...)
	left := hostset.Each(ctx, added, func(ctx context.Context, h hostset.Host) error {
		return network.RemoveReservation(ctx, lock, h.Conn, name, want)
	})
	for host, err := range left {
		failed[host] = fmt.Errorf("the reservation was added, and can't be removed again: %w", err)
	}
	return failed, targets
}

// anyExists reports whether a host has another reservation.
func anyExists(failed map[string]error) bool {
	return slices.ContainsFunc(value.Keys(failed), func(host string) bool {
		return errors.Is(failed[host], libvirt.ErrExists)
	})
}
