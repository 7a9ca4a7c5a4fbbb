package storagepool

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/tfdiag"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// checkLabel returns errors for the hosts on which the pool's directory has another label than the declared one. Each
// apply would stop and start the pool in vain.
func checkLabel(ctx context.Context, verb string, pool storage.Pool, targets hostset.Set) (diags diag.Diagnostics) {
	if pool.Label == nil {
		return nil
	}
	refused := hostset.Silent(hostset.Ask(ctx, targets, func(ctx context.Context, h *libvirt.Host) (*storage.Pool, error) {
		return nil, pool.CheckLabel(ctx, h)
	}))
	for _, host := range slices.Sorted(maps.Keys(refused)) {
		err := refused[host]
		if !errors.Is(err, libvirt.ErrUnsupported) {
			continue // It is unknown.
		}
		f := tfdiag.Failure{Verb: verb, Noun: fmt.Sprintf("%s %q", noun, pool.Name), Host: host, Err: err}
		f.Remedy = fmt.Sprintf("Remove label. On a host with SELinux, you can set it yourself: run \"chcon %s %s\" and then "+
			"\"virsh pool-refresh %s\".", *pool.Label, pool.Directory(), pool.Name)
		diags.Append(f.AttributeError(path.Root("target").AtName("permissions").AtName("label")))
	}
	return diags
}
