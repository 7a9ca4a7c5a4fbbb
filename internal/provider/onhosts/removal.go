package onhosts

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/tfdiag"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// Removal is what a removal of an object from hosts has left.
type Removal struct {
	// Failed are the errors by host.
	Failed map[string]error
	// Kept are the other hosts, if the object was removed from none because some of those in Failed would have refused.
	Kept []string
}

// RemoveTogether removes an object from hosts, unless one of them would refuse: check returns why, and changes nothing.
// It may be nil. A host that doesn't answer refuses nothing: the object is removed from the others. The removal from a
// single host checks for itself.
func RemoveTogether(ctx context.Context, hosts hostset.Set, check, remove Do) Removal {
	if check == nil || len(hosts.Present()) < 2 {
		return Removal{Failed: remove(ctx, hosts)}
	}
	failed := check(ctx, hosts)
	rest := hosts.Without(value.Keys(failed)...)
	for _, err := range failed {
		if !errors.Is(err, libvirt.ErrUnreachable) {
			return Removal{Failed: failed, Kept: rest.Names()}
		}
	}
	maps.Copy(failed, remove(ctx, rest))
	return Removal{Failed: failed}
}

// Left returns the hosts from which the object wasn't removed.
func (r Removal) Left() []string { return append(value.Keys(r.Failed), r.Kept...) }

// KeptText says which hosts still have the object although they wouldn't have refused; "": none. last are the
// host_states in the state.
func (r Removal) KeptText(last types.Map) string {
	had := Having(last)
	kept := slices.DeleteFunc(slices.Clone(r.Kept), func(host string) bool { return !slices.Contains(had, host) })
	if len(kept) == 0 {
		return ""
	}
	return "It stays on " + strings.Join(kept, ", ") + " as well, because it can't be removed from this host"
}

// remove removes the object from hosts, if none of them would refuse. It leaves another one of the name where it is,
// and warns.
func (c Change) remove(
	ctx context.Context, hosts hostset.Set, last types.Map,
) (left Removal, diags diag.Diagnostics) {
	others := c.others(ctx, hosts, last)
	for _, host := range others {
		f := tfdiag.Failure{Verb: "delete", Noun: c.Noun, Host: host, Err: c.exists()}
		f.Happened = "it stays there, because this resource hasn't created it"
		diags.Append(f.Warning())
	}
	return RemoveTogether(ctx, hosts.Without(others...), c.Check, c.Remove), diags
}

// Delete removes the object from every configured host that may have it, or from none if one of them would refuse.
// hosts and last are those of the state.
func (c Change) Delete(ctx context.Context, hosts types.Set, last types.Map) diag.Diagnostics {
	asked := Asked(c.Data, hosts, last)
	last, replaced := sameHosts(ctx, asked, last, c.Private)
	diags := c.replacedWarning(ctx, asked, replaced, true)
	left, more := c.remove(ctx, asked, last)
	diags.Append(more...)
	gone := asked.Without(left.Left()...)
	c.end(ctx, gone, nil)
	happened := left.KeptText(last)
	if had := gone.Named(Having(last)...).Names(); len(had) > 0 {
		happened = "It is removed from " + strings.Join(had, ", ") + ", but not from this host"
	}
	return append(diags, c.failureDiagnostics("delete", happened, left.Failed)...)
}
