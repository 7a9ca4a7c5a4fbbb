package placement

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// fitsFloors checks that the host's networks have the bandwidth that they have to guarantee to the VM. What they have
// guaranteed to others counts once the VM runs: missingBandwidth.
func fitsFloors(ctx context.Context, a inventory.Reply, d Desired) []inventory.Problem {
	floors := d.floors
	if floors == nil {
		floors = d.hostUse().Floors
	}

	floors = d.unplanned(a.Host.Name, floors)
	if len(floors) == 0 {
		return nil
	}

	lacking := func(networks []libvirt.Network) (problems []inventory.Problem) {
		for _, n := range networks {
			if why := migration.FloorLacks(n, floors[n.Name]); why != "" {
				problems = append(problems, inventory.Problem{
					Attribute: floors[n.Name].Path(), Detail: "its " + why, Remedy: migration.FloorRemedy,
				})
			}
		}

		return problems
	}

	networks, err := a.Host.Networks(ctx, func(networks []libvirt.Network) bool { return len(lacking(networks)) == 0 })
	if err != nil {
		return nil // Another check reports it.
	}

	return lacking(networks)
}

// changedFloors returns what the change asks networks to guarantee, and nothing if the VM is off afterwards. A network
// isn't asked before the VM starts, and then for everything.
func (d Desired) changedFloors(vm *inventory.VM) map[string]domain.NetworkFloor {
	use := d.Spec.HostUse()

	switch {
	case !d.runsOn(vm):
		use.Floors = nil
	case vm.Active:
		use = use.Without(vm.DeclaredSpec().HostUse())
	}

	if use.Floors == nil {
		return map[string]domain.NetworkFloor{}
	}

	return use.Floors
}

// unplanned returns the floors without those of networks that the same apply creates or changes on the host: what these
// can guarantee isn't known yet.
func (d Desired) unplanned(host string, floors map[string]domain.NetworkFloor) map[string]domain.NetworkFloor {
	floors = maps.Clone(floors)
	maps.DeleteFunc(floors, func(network string, _ domain.NetworkFloor) bool {
		return d.PlannedObjects.On(host, status.NetworkBandwidth, network)
	})

	return floors
}

// guarantees returns the bandwidths of which the host's networks can guarantee parts, by network.
func guarantees(ctx context.Context, h *libvirt.Host) map[string]migration.Guarantee {
	networks, err := h.Networks(ctx)
	if err != nil {
		return nil // libvirt then reports a network that can't guarantee more.
	}

	all := make(map[string]migration.Guarantee)

	for _, n := range networks {
		if g, ok := migration.GuaranteeOf(n); ok {
			all[n.Name] = g
		}
	}

	return all
}

// missingBandwidth returns the networks that have guaranteed too much to others. Another check reports a network that
// could not guarantee that much to the VM alone.
func (has offer) missingBandwidth(use domain.HostUse, others map[string]domain.HostUse) []shortage {
	var found []shortage

	for _, network := range slices.Sorted(maps.Keys(use.Floors)) {
		var (
			given   uint64
			holders []string
		)

		for _, name := range slices.Sorted(maps.Keys(others)) {
			if sum := others[name].Floors[network].Sum; sum > 0 {
				given, holders = given+sum, append(holders, name)
			}
		}

		g, known := has.guarantees[network]
		if !known || given == 0 || given+use.Floors[network].Sum <= g.Limit {
			continue
		}

		found = append(found, shortage{
			Problem: domain.Problem{
				Path: use.Floors[network].Path(), Message: fmt.Sprintf("has %d kB/s in its network %q (%s), of which %d are "+
					"guaranteed to VM %s, and the VM asks for %d", g.Limit, network, g.By, given, inventory.QuoteList(holders),
					use.Floors[network].Sum),
			}, reason: migration.HostResourcesTaken, lacks: status.HostObject{Kind: status.NetworkBandwidth, Name: network},
			remedy: "Lower bandwidth.inbound.floor of one of the VMs, stop or move another VM before, or choose another host.",
		})
	}

	return found
}
