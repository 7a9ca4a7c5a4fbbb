package onhosts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/lease"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/tfdiag"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// Do performs an operation on each of the hosts and returns the errors by host.
type Do func(context.Context, hostset.Set) map[string]error

// Each returns a Do that performs one host's part on all hosts at the same time.
func Each(do func(context.Context, *libvirt.Host) error) Do {
	return func(ctx context.Context, s hostset.Set) map[string]error {
		return hostset.Each(ctx, s, func(ctx context.Context, h hostset.Host) error { return do(ctx, h.Conn) })
	}
}

// Change is a change of one resource on its hosts.
type Change struct {
	Data *meta.Data
	// TypeName and ImportID make up the import command that an error suggests if the object already exists.
	TypeName, ImportID string
	// Noun names the resource in messages: `storage pool "vms"`.
	Noun string
	// Healthy is the value of host_states for a host where Put succeeded.
	Healthy string
	// Put changes the object of hosts that have it. Remove removes it.
	Put, Remove Do
	// Check returns why hosts would refuse Remove, and changes nothing. If one of them would, the object isn't removed
	// from any. nil: only a host's own Remove can tell.
	Check Do
	// New returns what creates the object with this UUID on hosts that lack it. It is libvirt.ErrExists on a host that
	// has an object with another UUID.
	New func(uuid string) Do
	// UUID returns the UUID of the host's object, and libvirt.ErrNotFound if the host has none.
	UUID func(context.Context, *libvirt.Host) (string, error)
	// UUIDs are those of the resource's objects, if its state has them. Without them and Private the hosts are asked that
	// have one by the state.
	UUIDs []string
	// JoinRemedy says what to do about another object of a host that joins; "": import both, which have own UUIDs then.
	JoinRemedy string
	// Private is the private state of a resource whose state lacks the UUIDs. Create and Update record them there, and
	// which hosts have an object, as OwnRecorded does for Read.
	Private meta.Private
}

// Create puts the object on the targets and returns its host_states. If that fails on a host there is a warning, and
// the next plan shows the host as an update. If one already has the object, Create changes no host and returns an
// error; if all hosts fail, it removes the objects that it created. An object that a killed run of Create has left is
// taken over, and one that another run is creating is waited for.
func (c Change) Create(ctx context.Context, targets hostset.Set) (types.Map, diag.Diagnostics) {
	none := types.MapNull(types.StringType)
	if len(targets) == 0 {
		err := fmt.Errorf("%w: all hosts that it is to be on are fenced", libvirt.ErrOperationInvalid)
		remedy := "Set hosts to hosts that aren't fenced, or remove the resource until one of its hosts is back."
		f := tfdiag.Failure{Verb: "create", Noun: c.Noun, Err: err, Remedy: remedy}
		return none, diag.Diagnostics{f.AttributeError(path.Root(HostsName))}
	}
	id, begun, failed, unlock := c.prepare(ctx, targets, uuid.NewString())
	defer unlock()
	if anyIs(failed, libvirt.ErrExists) {
		c.abandon(ctx, begun)
		return none, c.failureDiagnostics("create", "", failed)
	}
	maps.Copy(failed, c.New(id)(ctx, begun))
	if len(failed) < len(targets) && !anyIs(failed, libvirt.ErrExists) {
		c.end(ctx, begun, failed)
		diags := append(Warnings("create", c.Noun, failed), record(ctx, c.Private, []string{id})...)
		states := StatesAfter(targets, failed, none, c.Healthy)
		return states, append(diags, recordHosts(ctx, targets, states, c.Private)...)
	}
	cleaning, cancel := hostset.CleanupContext(ctx)
	defer cancel()
	left := c.Remove(cleaning, targets.Without(value.Keys(failed)...))
	diags := append(c.failureDiagnostics("create", "", failed), c.failureDiagnostics("delete", "", left)...)
	maps.Copy(failed, left)
	c.end(ctx, begun, failed)
	return none, diags
}

// join creates the object on hosts that lack it, and prepares that. end has to be called with begun, and then unlock.
func (c Change) join(
	ctx context.Context, hosts hostset.Set, wanted string,
) (id string, begun hostset.Set, failed map[string]error, unlock func()) {
	id, begun, failed, unlock = c.prepare(ctx, hosts, wanted)
	maps.Copy(failed, c.New(id)(ctx, begun))
	return id, begun, failed, unlock
}

// prepare records on the hosts, those in begun, that the object is being created there. id is its UUID: the wanted one,
// unless a killed run has recorded another one. end or abandon has to be called with begun, and then unlock.
func (c Change) prepare(
	ctx context.Context, hosts hostset.Set, wanted string,
) (id string, begun hostset.Set, failed map[string]error, unlock func()) {
	failed, unlock = c.lock(ctx, hosts)
	id, more := c.begin(ctx, hosts.Without(value.Keys(failed)...), wanted)
	maps.Copy(failed, more)
	return id, hosts.Without(value.Keys(failed)...), failed, unlock
}

// abandon removes the records of prepare on hosts where nothing was created. Where a killed run has left an object, its
// record stays.
func (c Change) abandon(ctx context.Context, begun hostset.Set) {
	untouched := map[string]error{}
	for _, host := range begun.Names() {
		untouched[host] = libvirt.ErrExists
	}
	c.end(ctx, begun, untouched)
}

// creation is the record of a Create.
func (c Change) creation() hostset.Creation {
	return hostset.Creation{Kind: strings.TrimPrefix(c.TypeName, "virtfleet_"), Name: c.ImportID}
}

// lockTimeout is how long Create waits for another run. It is longer than taking over a killed run's lock takes.
const lockTimeout = lease.TakeoverTime + 30*time.Second

// lock takes a lock on the targets, so that the record of a run that is still at work isn't taken for that of a killed
// one. unlock must be called. A lost lock doesn't cancel the change: a host that stops answering must not keep the
// others from being changed.
func (c Change) lock(ctx context.Context, targets hostset.Set) (failed map[string]error, unlock func()) {
	ctx, cancel := context.WithTimeout(ctx, lockTimeout)
	defer cancel()
	record, take := c.creation(), c.Data.Storage().Lock
	var mu sync.Mutex
	var releases []func()
	failed = hostset.Each(ctx, targets, func(ctx context.Context, h hostset.Host) error {
		_, release, err := take(ctx, h.Name, "creating:"+record.Kind+":"+record.Name, "creating")
		if err == nil {
			mu.Lock()
			releases = append(releases, release)
			mu.Unlock()
		}
		return err
	})
	return failed, func() {
		var done sync.WaitGroup
		for _, release := range releases {
			done.Go(release)
		}
		done.Wait()
	}
}

// begin records on the targets that the object is being created with the UUID wanted, or with that of a killed run if
// there was one. It returns libvirt.ErrExists for a host that has another object.
func (c Change) begin(
	ctx context.Context, targets hostset.Set, wanted string,
) (id string, failed map[string]error) {
	record := c.creation()
	answers := hostset.Ask(ctx, targets, func(ctx context.Context, h *libvirt.Host) (*string, error) {
		begun, err := record.Begun(ctx, h)
		return &begun, err
	})
	id, records := wanted, map[string]string{}
	for _, a := range hostset.Found(answers) {
		if records[a.Host] = *a.Value; *a.Value != "" {
			id = *a.Value
		}
	}
	return id, hostset.Each(ctx, targets, func(ctx context.Context, h hostset.Host) error {
		is, err := c.UUID(ctx, h.Conn)
		switch {
		case err == nil && is != id:
			return fmt.Errorf("%w: the host has the %s", libvirt.ErrExists, c.Noun)
		case err != nil && !errors.Is(err, libvirt.ErrNotFound):
			return err
		case records[h.Name] == id:
			return nil
		default:
			return record.Begin(ctx, h.Conn, id)
		}
	})
}

// end removes the records of begin, even if ctx has ended. The record stays where an object may be left that the state
// doesn't have.
func (c Change) end(ctx context.Context, begun hostset.Set, failed map[string]error) {
	ctx, cancel := hostset.CleanupContext(ctx)
	defer cancel()
	for host, err := range hostset.Each(ctx, begun, func(ctx context.Context, h hostset.Host) error {
		if failed[h.Name] != nil {
			if _, err := c.UUID(ctx, h.Conn); !errors.Is(err, libvirt.ErrNotFound) {
				return err
			}
		}
		return c.creation().End(ctx, h.Conn)
	}) {
		c.Data.Fleet.Logger().Warn("the record of a creation was not removed", "host", host, "object", c.Noun, "error", err)
	}
}

// Update changes the object on the targets that have it, creates it on those that join them, and removes it from
// configured hosts in last that aren't targets. last are the host_states in the state. If a host that joins has another
// object of the name, that is an error. Update returns the new host_states. complete says that it succeeded on all
// targets. Without targets, which means that all are fenced, it changes nothing.
func (c Change) Update(
	ctx context.Context, targets hostset.Set, last types.Map,
) (states types.Map, complete bool, diags diag.Diagnostics) {
	if len(targets) == 0 {
		return last, true, nil
	}
	leaving := Leaving(c.Data, last, targets)
	last, _ = sameHosts(ctx, slices.Concat(targets, leaving), last, c.Private)
	joining := targets.Without(Having(last)...)
	var uuids []string
	if len(joining) > 0 {
		uuids = c.uuids(ctx, last)
		joining = joining.Without(c.holding(ctx, joining, uuids)...)
	}
	failed := c.Put(ctx, targets.Without(joining.Names()...))
	if len(joining) > 0 {
		id, begun, more, unlock := c.join(ctx, joining, append(uuids, uuid.NewString())[0])
		defer unlock()
		c.end(ctx, begun, more)
		maps.Copy(failed, more)
		diags.Append(record(ctx, c.Private, append(uuids, id))...)
	}
	c.end(ctx, targets.Without(value.Keys(failed)...), nil) // An object that was imported may still have a record.
	var left Removal
	if len(failed) > 0 && len(failed) == len(targets) {
		// Nothing would be left of the object, such as the passphrase of encrypted disks.
		left.Failed = map[string]error{}
		for _, name := range leaving.Names() {
			left.Failed[name] = fmt.Errorf("%w: no other host has the %s yet", libvirt.ErrOperationInvalid, c.Noun)
		}
	} else {
		var warnings diag.Diagnostics
		left, warnings = c.remove(ctx, leaving, last)
		diags.Append(warnings...)
	}
	diags.Append(c.failureDiagnostics("update", "", failed)...)
	diags.Append(c.failureDiagnostics("delete", left.KeptText(last), left.Failed)...)
	states = StillThere(StatesAfter(targets, failed, last, c.Healthy), left.Left(), last)
	return states, len(failed) == 0, append(diags, recordHosts(ctx, targets, states, c.Private)...)
}

// failureDiagnostics returns errors about hosts. If an object already exists, they suggest to import it. happened is
// what they say in addition; "": nothing.
func (c Change) failureDiagnostics(verb, happened string, failed map[string]error) (diags diag.Diagnostics) {
	if verb == "create" { // One error names all hosts that have it.
		var f tfdiag.Failure
		if f, failed = c.existing(failed); f.Err != nil {
			diags.Append(f.Error())
		}
	}
	for _, host := range value.Keys(failed) {
		f := tfdiag.Failure{Verb: verb, Noun: c.Noun, Host: host, Err: failed[host], Happened: happened}
		if errors.Is(f.Err, libvirt.ErrExists) {
			f.Remedy = cmp.Or(c.JoinRemedy, joinRemedy)
		}
		diags.Append(f.Error())
	}
	return diags
}
