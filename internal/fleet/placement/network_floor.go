package placement

import (
	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// fitsFloor checks that the network of an interface can guarantee the bandwidth that the interface asks for.
func fitsFloor(a inventory.Reply, d Desired, networks []libvirt.Network, key string) []inventory.Problem {
	i := d.Spec.Interfaces[key]
	for _, n := range networks {
		if n.Name != i.Network {
			continue
		}

		why := migration.FloorLacks(n, i.Floor(), floorsOf(d.Spec, n.Name, key)+runningFloors(a, d, n.Name))
		if why != "" {
			return []inventory.Problem{{
				Attribute: "interfaces." + key + ".bandwidth.inbound.floor", Detail: why, Remedy: migration.FloorRemedy,
			}}
		}
	}

	return nil
}

// floorsOf returns what a network guarantees to the interfaces of a VM, except the one with that key.
func floorsOf(vm domain.Spec, network, but string) uint64 {
	var sum uint64

	for key, i := range vm.Interfaces {
		if i.Network == network && key != but {
			sum += i.Floor()
		}
	}

	return sum
}

// runningFloors returns what a network of the host guarantees to the other VMs that run there.
func runningFloors(a inventory.Reply, d Desired, network string) uint64 {
	if a.View == nil {
		return 0 // libvirt then says what doesn't fit.
	}

	var sum uint64

	for uuid, e := range a.View.Domains {
		if p := e.Parse(); p.LiveSpec != nil && e.Name != d.Spec.Name && uuid != d.Replaces {
			sum += floorsOf(*p.LiveSpec, network, "")
		}
	}

	return sum
}
