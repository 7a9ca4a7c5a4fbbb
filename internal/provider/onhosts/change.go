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

// Do does something on each of the hosts and returns the errors by host.
type Do func(context.Context, hostset.Set) map[string]error

// Each is a Do that does one host's part on all of them at the same time.
func Each(do func(context.Context, *libvirt.Host) error) Do {
	return func(ctx context.Context, s hostset.Set) map[string]error {
		return hostset.Each(ctx, s, func(ctx context.Context, h hostset.Host) error { return do(ctx, h.Conn) })
	}
}

// Change is a change of one resource on its hosts.
type Change struct {
	Data *meta.Data
	// TypeName and ImportID make the command that an error offers where the object exists already.
	TypeName, ImportID string
	// Noun names the resource in messages: `storage pool "vms"`.
	Noun string
	// Healthy is the word in host_states for a host where Put succeeded.
	Healthy string
	// Put makes or changes the object, Remove removes it.
	Put, Remove Do
}

// Create puts the object on the targets and returns its host_states. A host where that fails gets a warning, and the
// next plan shows it as an update. If every host fails, or one has the object already, the objects that were made are
// removed again and the result is an error.
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

// Update puts the object on the targets, removes it from the configured hosts of last, the state's host_states, that
// aren't among them, and returns the new host_states. Complete says that Put succeeded everywhere.
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

// Delete removes the object from every configured host that may have it. Hosts and last are those of the state.
func (c Change) Delete(ctx context.Context, hosts types.Set, last types.Map) diag.Diagnostics {
	known, _ := Known(c.Data, hosts, last)
	return c.failureDiagnostics("delete", c.Remove(ctx, known))
}

// failureDiagnostics are errors about hosts. They offer to import what exists already.
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
