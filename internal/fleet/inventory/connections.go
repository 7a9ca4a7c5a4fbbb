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
		hosts[i] = hostset.Host{
			Name: h.Name, Conn: h.Conn, Fenced: h.Config.Fenced,
			OverprovisioningFactor: h.Config.StorageOverprovisioningFactor, SameFile: h.Config.SameFile,
			ReadEnd: h.Config.ReadEnd, SHA256: h.Config.SHA256,
			SeenVolumes: func(ctx context.Context, pool string) ([]libvirt.Volume, error) {
				return inv.PoolVolumes(ctx, h, pool)
			},
		}
	}

	return hostset.NewSet(hosts...)
}
