package inventory

import (
	"context"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// Connections returns the libvirt connections of the configured hosts, for objects other than VMs.
func (inv *Inventory) Connections() hostset.Set {
	hosts := make([]hostset.Host, len(inv.Configured))
	for i, h := range inv.Configured {
		hosts[i] = h.Files()
		hosts[i].Fenced, hosts[i].OverprovisioningFactor = h.Config.Fenced, h.Config.StorageOverprovisioningFactor
		hosts[i].SeenVolumes = func(ctx context.Context, pool string) ([]libvirt.Volume, error) {
			return inv.PoolVolumes(ctx, h, pool)
		}
		hosts[i].SeenUsing = func(ctx context.Context, path string) (map[string]string, error) {
			v, err := inv.ViewOf(ctx, h)
			if err != nil {
				return nil, err
			}

			return v.Using(path), v.Err
		}
	}

	return hostset.NewSet(hosts...)
}
