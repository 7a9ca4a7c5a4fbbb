package inventory

import "github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"

// Connections returns the libvirt connections of the configured hosts, for objects other than VMs.
func (inv *Inventory) Connections() hostset.Set {
	hosts := make([]hostset.Host, len(inv.Configured))
	for i, h := range inv.Configured {
		hosts[i] = hostset.Host{
			Name: h.Name, Conn: h.Conn, Fenced: h.Config.Fenced,
			OverprovisioningFactor: h.Config.StorageOverprovisioningFactor, SameFile: h.Config.SameFile,
		}
	}

	return hostset.NewSet(hosts...)
}
