package onhosts

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/tfdiag"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// namesIn returns the hosts in the attribute, sorted, and nil if it is null or unknown.
func namesIn(hosts types.Set) []string {
	var names []string
	for _, e := range hosts.Elements() {
		if s, ok := e.(types.String); ok && !s.IsUnknown() {
			names = append(names, s.ValueString())
		}
	}
	slices.Sort(names)
	return names
}

// Undecided reports whether the hosts in the attribute, or some of them, are known only when they are applied.
func Undecided(hosts types.Set) bool {
	return hosts.IsUnknown() || slices.ContainsFunc(hosts.Elements(), attr.Value.IsUnknown)
}

// Targets returns the hosts that a resource is to be on: those in hosts, or every configured host if hosts is null or
// undecided. A name that isn't configured is an error. Fenced hosts are left out, with a warning if no other is left.
func Targets(data *meta.Data, hosts types.Set) (targets hostset.Set, diags diag.Diagnostics) {
	all := data.Fleet.Connections()
	defer func() {
		if len(targets) == 0 && len(all) > 0 && !diags.HasError() {
			diags.AddAttributeWarning(path.Root(HostsName), "All hosts are fenced", "Each host that the resource is to be on "+
				"has fenced = true in the provider's hosts. Until that changes, the apply fails if the resource is new, and "+
				"doesn't change it otherwise.")
		}
	}()
	if hosts.IsNull() || hosts.IsUnknown() {
		return all.Present(), nil
	}
	names := namesIn(hosts)
	for _, name := range names {
		if _, ok := all.Host(name); !ok {
			diags.AddAttributeError(path.Root(HostsName), "Unknown host", fmt.Sprintf(
				"%q is not a key of the provider's hosts, which are %s.", name, strings.Join(all.Names(), ", ")))
		}
	}
	if Undecided(hosts) {
		return all.Present(), diags
	}
	return all.Named(names...).Present(), diags
}

// PlanStates returns the planned host_states: healthy on every target. It is unknown while hosts is. While all hosts
// are fenced, it stays as last, the host_states in the state.
func PlanStates(targets hostset.Set, hosts types.Set, last types.Map, healthy string) types.Map {
	switch {
	case Undecided(hosts):
		return types.MapUnknown(types.StringType)
	case len(targets) == 0 && !last.IsNull():
		return last
	}
	states := map[string]string{}
	for _, name := range targets.Names() {
		states[name] = healthy
	}
	return value.NewStringMap(states)
}

// Known returns the configured hosts that may have the resource: its targets, and the hosts in its state. unconfigured
// are the hosts in the state that are no longer configured.
func Known(data *meta.Data, hosts types.Set, states types.Map) (known hostset.Set, unconfigured []string) {
	all := data.Fleet.Connections()
	last := slices.Collect(maps.Keys(value.StringMap(states)))
	for _, name := range last {
		if _, ok := all.Host(name); !ok {
			unconfigured = append(unconfigured, name)
		}
	}
	slices.Sort(unconfigured)
	if hosts.IsNull() {
		return all.Present(), unconfigured
	}
	return all.Named(append(last, namesIn(hosts)...)...).Present(), unconfigured
}

// Asked returns the configured hosts that are asked for an object that is known by its UUID: the Known hosts, or all if
// none of those that have it by states is configured, because they may have other keys now.
func Asked(data *meta.Data, hosts types.Set, states types.Map) hostset.Set {
	if renamed(data, states) {
		return data.Fleet.Connections().Present()
	}
	known, _ := Known(data, hosts, states)
	return known
}

// renamed reports whether none of the hosts that have a resource by its host_states is configured.
func renamed(data *meta.Data, states types.Map) bool {
	had := Having(states)
	return len(had) > 0 && len(data.Fleet.Connections().Named(had...)) == 0
}

// Observation is what the hosts answered about a resource.
type Observation[T any] struct {
	// States are the current host_states.
	States map[string]string
	// Found are the answers of the hosts that have it.
	Found []hostset.Answer[T]
	// Gone says that every host that could have the resource answered, and none has it. A resource that is Restored isn't
	// gone, but missing.
	Gone bool
	// Keep says that no host has it, but not all hosts answered, or that all are fenced: the state stays as it is.
	Keep bool
	// answers are those of all hosts that were asked.
	answers []hostset.Answer[T]
}

// Concludes reports whether Read is finished. It is after an error, if the state stays as it is, and if the resource is
// gone: then Concludes removes it from the state. During an import it is finished if no host has the resource, also if
// a host doesn't answer, and Concludes adds an error. noun and id are as in Imported.
func (o Observation[T]) Concludes(
	ctx context.Context, resp *resource.ReadResponse, noun, id string, imported bool,
) bool {
	switch {
	case resp.Diagnostics.HasError():
		return true
	case imported && len(o.Found) == 0:
		_, diags := Imported(o.answers, noun, id)
		resp.Diagnostics.Append(diags...)
		return true
	case o.Keep:
		return true
	case o.Gone:
		resp.State.RemoveResource(ctx)
		return true
	}
	return false
}

// ImportedHosts returns the attribute hosts for an import: the hosts that have the resource, null if all do.
func (o Observation[T]) ImportedHosts() types.Set {
	if len(o.Found) == len(o.answers) {
		return value.NewStringSet(nil)
	}
	return value.NewStringSet(hostNames(o.Found))
}

// Question is what Observe asks.
type Question[T any] struct {
	Data *meta.Data
	// Noun names the resource in messages: `storage pool "vms"`.
	Noun string
	// Imported says that the state has only what an import begins with. The hosts that have the resource are then its
	// hosts, see ImportedHosts: it isn't missing on others.
	Imported bool
	// Restored says that what knows the object by its UUID can use it again once it is created with that: it stays in the
	// state, where it is missing on all hosts.
	Restored bool
	// Hosts and Last are the state's hosts and host_states.
	Hosts types.Set
	Last  types.Map
	// Answers are the answers of the Known hosts, or of those that Asked returns.
	Answers []hostset.Answer[T]
	// State returns the value of host_states for what a host has.
	State func(T) string
}

// Observe compares the answers of hosts with their last known states. An error in diags says that a host which had the
// resource didn't answer, and that on_unreachable doesn't allow that.
func Observe[T any](q Question[T]) (o Observation[T], diags diag.Diagnostics) {
	last := value.StringMap(q.Last)
	targets := namesIn(q.Hosts)
	o = Observation[T]{States: map[string]string{}, Found: hostset.Found(q.Answers), answers: q.Answers}
	silent := false
	for _, a := range q.Answers {
		state, was := last[a.Host]
		wanted := q.Hosts.IsNull() || slices.Contains(targets, a.Host)
		switch {
		case a.Err != nil:
			silent = true
			if was {
				o.States[a.Host] = state
			}
			diags.Append(q.silenceDiagnostic(a, was))
		case a.Value != nil:
			o.States[a.Host] = q.State(*a.Value)
		case (wanted || was) && !q.Imported:
			o.States[a.Host] = Missing
		}
	}
	if had := Having(q.Last); !q.Hosts.IsNull() && renamed(q.Data, q.Last) && len(o.Found) > len(had) {
		diags.Append(q.severalHave(had, hostNames(o.Found)).Error())
	}
	_, unconfigured := Known(q.Data, q.Hosts, q.Last)
	found := renamed(q.Data, q.Last) && len(o.Found) > 0
	if len(unconfigured) > 0 && !found {
		diags.AddWarning("Host is not configured any more", fmt.Sprintf("The %s was last seen on %s, which is no longer "+
			"in the provider's hosts. The next apply removes it from the state, and leaves it on that host.", q.Noun,
			strings.Join(unconfigured, ", ")))
	}
	keep := silent || q.allFenced()
	missing := q.Restored && len(o.States) > 0 && len(unconfigured) == 0
	o.Gone = len(o.Found) == 0 && !keep && !missing
	o.Keep = len(o.Found) == 0 && keep
	return o, diags
}

// severalHave is the failure if more hosts have an object with the resource's UUID than had it under their former keys:
// hosts that were cloned have each other's objects.
func (q Question[T]) severalHave(had, have []string) tfdiag.Failure {
	return tfdiag.Failure{
		Verb: "read", Noun: q.Noun,
		Err: fmt.Errorf("%w: it was on %s, which the provider's hosts no longer list, and now %s have one with its UUID",
			libvirt.ErrOperationInvalid, strings.Join(had, ", "), strings.Join(have, ", ")),
		Remedy: "Give the hosts their former keys. Or remove the resource from the state with \"terraform state rm\", and " +
			"import it for the hosts that it is on.",
	}
}

// allFenced reports whether no host was asked because all configured hosts that may have the resource are fenced.
func (q Question[T]) allFenced() bool {
	all := q.Data.Fleet.Connections()
	if !q.Hosts.IsNull() && !renamed(q.Data, q.Last) {
		all = all.Named(append(value.Keys(value.StringMap(q.Last)), namesIn(q.Hosts)...)...)
	}
	return len(all) > 0 && len(all.Present()) == 0
}

// silenceDiagnostic returns the error or warning for a host that didn't answer.
func (q Question[T]) silenceDiagnostic(a hostset.Answer[T], was bool) diag.Diagnostic {
	f := tfdiag.Failure{Verb: "read", Noun: q.Noun, Host: a.Host, Err: a.Err}
	// The contents of a storage pool that isn't there are known once the pool is repaired, which this plan may do.
	pool := errors.Is(a.Err, libvirt.ErrPoolInactive) || errors.Is(a.Err, libvirt.ErrNoPool)
	if was && !pool && q.Data.OnUnreachable != meta.OnUnreachableKeep {
		return f.Error()
	}
	f.Happened = fmt.Sprintf("host %q can't tell, so what it has is taken to be as it was", a.Host)
	return f.Warning()
}

// Failures returns errors about hosts, one for each.
func Failures(verb, noun string, failed map[string]error) (diags diag.Diagnostics) {
	for _, name := range value.Keys(failed) {
		diags.Append(tfdiag.Failure{Verb: verb, Noun: noun, Host: name, Err: failed[name]}.Error())
	}
	return diags
}

// Warnings returns the failures as warnings, for a create that worked on other hosts: the next plan shows the rest as
// an update.
func Warnings(verb, noun string, failed map[string]error) (diags diag.Diagnostics) {
	for _, name := range value.Keys(failed) {
		f := tfdiag.Failure{Verb: verb, Noun: noun, Host: name, Err: failed[name]}
		f.Happened = "not done on this host; the next plan shows it as an update"
		diags.Append(f.Warning())
	}
	return diags
}

// StatesAfter returns the host_states after a change: healthy where it worked, the last state where it failed, and
// Missing if there is none.
func StatesAfter(targets hostset.Set, failed map[string]error, last types.Map, healthy string) types.Map {
	before := value.StringMap(last)
	states := map[string]string{}
	for _, name := range targets.Names() {
		states[name] = healthy
		if failed[name] != nil {
			states[name] = Missing
			if state, ok := before[name]; ok {
				states[name] = state
			}
		}
	}
	return value.NewStringMap(states)
}

// NotFound returns the error of an import that found nothing.
func NotFound(noun, id string) error {
	return fmt.Errorf("%w: no configured host has the %s %q", libvirt.ErrNotFound, noun, id)
}

// anyIs reports whether one of the failures is of that kind.
func anyIs(failed map[string]error, kind error) bool {
	for _, err := range failed {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}

// Leaving returns the configured hosts that have the resource and are no longer its targets.
func Leaving(data *meta.Data, last types.Map, targets hostset.Set) hostset.Set {
	return data.Fleet.Connections().Named(value.Keys(value.StringMap(last))...).Without(targets.Names()...).Present()
}

// Losing returns the configured hosts that lose the resource by a plan: all that may have it if it is destroyed or
// replaced, otherwise those that leave its targets. hosts and last are those of the state, planned are the planned
// hosts.
func Losing(
	data *meta.Data, hosts types.Set, last types.Map, removed bool, planned types.Set, targets hostset.Set,
) hostset.Set {
	switch {
	case removed:
		known, _ := Known(data, hosts, last)
		return known
	case Undecided(planned):
		return nil // Which hosts stay is known when it is applied.
	}
	return Leaving(data, last, targets)
}

// UsersGoFirst says when the use that InUse has found doesn't matter. A plan isn't told what else it destroys.
const UsersGoFirst = "If the same apply destroys what uses it, nothing is to be done: that goes first."

// StorageStaysInUse says what becomes of a destroy of storage that InUse has found to be in use.
const StorageStaysInUse = "While that is so, the apply that destroys it fails, and removes it from no host. " +
	UsersGoFirst

// StaysInUse says what becomes of a destroy of an object that InUse has found to be in use, and that stays meanwhile.
const StaysInUse = "It is destroyed only when nothing uses it any more. " + UsersGoFirst + " " +
	tfdiag.ChangeUsersFirst

// InUse returns, for each host on which something uses the resource, a sentence that names the users. A host that
// doesn't answer is left out: Read has reported it.
func InUse(
	ctx context.Context, hosts hostset.Set, noun string, users func(context.Context, *libvirt.Host) ([]string, error),
) (sentences []string) {
	answers := hostset.Ask(ctx, hosts, func(ctx context.Context, h *libvirt.Host) (*[]string, error) {
		used, err := users(ctx, h)
		return &used, err
	})
	for _, a := range hostset.Found(answers) {
		if len(*a.Value) > 0 {
			sentences = append(sentences, fmt.Sprintf("On host %s the %s is used by %s.", a.Host, noun,
				strings.Join(*a.Value, ", ")))
		}
	}
	return sentences
}

// StillThere puts the hosts from which a resource wasn't removed back into host_states.
func StillThere(states types.Map, left []string, last types.Map) types.Map {
	all, before := value.StringMap(states), value.StringMap(last)
	for _, name := range left {
		all[name] = before[name]
	}
	return value.NewStringMap(all)
}
