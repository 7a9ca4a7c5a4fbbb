package storagepool

import (
	"context"
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/onhosts"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/tfdiag"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// gets returns the targets on which libvirt gets a new definition of where the pool's storage is: all if that changes,
// otherwise those that don't have the pool. last are the host_states in the state.
func gets(pool, before storage.Pool, targets hostset.Set, last types.Map) hostset.Set {
	if pool.OtherStorage(before) != "" || pool.Directory() != before.Directory() {
		return targets
	}
	return targets.Without(onhosts.Having(last)...)
}

// checkInCommon returns an error for each host on which another pool has the storage of this one: libvirt refuses the
// second one. planned are the hosts in the plan.
func (r *poolResource) checkInCommon(
	ctx context.Context, pool storage.Pool, hosts hostset.Set, planned types.Set,
) (diags diag.Diagnostics) {
	if pool.Name == "" || onhosts.Undecided(planned) {
		return nil
	}
	answers := hostset.Ask(ctx, hosts, func(ctx context.Context, h *libvirt.Host) (*[]libvirt.StoragePool, error) {
		all, err := h.StoragePools(ctx)
		return &all, err
	})
	found := map[string][]libvirt.StoragePool{}
	for _, a := range hostset.Found(answers) {
		found[a.Host] = *a.Value
	}
	for _, host := range hosts.Names() {
		others := r.Data.Planned.Pools(host) // This one is among them.
		for _, is := range found[host] {
			// One that a resource changes or removes is there before it, if this one is planned after it.
			_, known := others[is.Name]
			other, err := storage.ReadPool(is.XML)
			if !known && err == nil && !r.Data.Planned.PoolLeaves(host, is.Name) {
				others[is.Name] = *other
			}
		}
		for _, name := range value.Keys(others) {
			common := pool.InCommon(others[name])
			if common == "" {
				continue
			}
			block, _, _ := strings.Cut(common, ".")
			diags.AddAttributeError(path.Root(block), "Storage of another pool", fmt.Sprintf("On host %q storage pool %q has "+
				"%s, as storage pool %q would. libvirt refuses the second one.\n\nUse the pool that is there, or change %s. If "+
				"this plan removes or changes storage pool %[2]q, apply that first, without this one. %[6]s", host, name, common,
				pool.Name, block, tfdiag.DestroyAnyway))
		}
	}
	return diags
}
