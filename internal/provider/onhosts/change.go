package onhosts

import (
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"

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
	// Put creates or changes the object. Remove removes it.
	Put, Remove Do
}

// Create puts the object on the targets and returns its host_states. If that fails on a host there is a warning, and
// the next plan shows the host as an update. If all hosts fail, or one already has the object, Create removes the
// objects that it created and returns an error.
func (c Change) Create(ctx context.Context, targets hostset.Set) (types.Map, diag.Diagnostics) {
	none := types.MapNull(types.StringType)
	failed := c.Put(ctx, targets)
	if len(failed) < len(targets) && !AnyIs(failed, libvirt.ErrExists) {
		return StatesAfter(targets, failed, none, c.Healthy), Warnings("create", c.Noun, failed)
	}
	cleaning, cancel := hostset.CleanupContext(ctx)
	defer cancel()
	left := c.Remove(cleaning, targets.Without(value.Keys(failed)...))
	return none, append(c.failureDiagnostics("create", failed), c.failureDiagnostics("delete", left)...)
}

// Update puts the object on the targets, and removes it from configured hosts in last that aren't targets. last are the
// host_states in the state. Update returns the new host_states. complete says that Put succeeded on all targets.
func (c Change) Update(
	ctx context.Context, targets hostset.Set, last types.Map,
) (states types.Map, complete bool, diags diag.Diagnostics) {
	failed := c.Put(ctx, targets)
	left := c.Remove(ctx, Leaving(c.Data, last, targets))
	diags.Append(c.failureDiagnostics("update", failed)...)
	diags.Append(c.failureDiagnostics("delete", left)...)
	states = StillThere(StatesAfter(targets, failed, last, c.Healthy), left, last)
	return states, len(failed) == 0, diags
}

// Delete removes the object from every configured host that may have it. hosts and last are those of the state.
func (c Change) Delete(ctx context.Context, hosts types.Set, last types.Map) diag.Diagnostics {
	known, _ := Known(c.Data, hosts, last)
	return c.failureDiagnostics("delete", c.Remove(ctx, known))
}

// failureDiagnostics returns errors about hosts. If an object already exists, they suggest to import it.
func (c Change) failureDiagnostics(verb string, failed map[string]error) (diags diag.Diagnostics) {
	for _, host := range value.Keys(failed) {
		f := tfdiag.Failure{Verb: verb, Noun: c.Noun, Host: host, Err: failed[host]}
		if errors.Is(f.Err, libvirt.ErrExists) {
			f.Remedy = fmt.Sprintf("To manage it here: terraform import %s.<name> %s", c.TypeName, c.ImportID)
		}
		diags.Append(f.Error())
	}
	return diags
}
