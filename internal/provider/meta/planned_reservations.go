package meta

import (
	"fmt"
	"slices"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/network"
)

// PlanReservation records a reservation that a resource of its own is to have in a network.
func (p *Planned) PlanReservation(networkName string, h network.DHCPHost) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reservations == nil {
		p.reservations = map[string][]network.DHCPHost{}
	}
	p.reservations[networkName] = append(p.reservations[networkName], h)
}

// Reservations returns the reservations that resources of their own are to have in a network, as far as they were
// planned.
func (p *Planned) Reservations(networkName string) []network.DHCPHost {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.reservations[networkName])
}

// Drops returns why the network of that name, whose addresses must be known, doesn't keep a reservation that a resource
// of its own is to have; "" if it does.
func (n PlannedNetwork) Drops(name string, h network.DHCPHost) string {
	subnet, drops := n.Declared.Drops(h)
	if !drops {
		return ""
	}
	return fmt.Sprintf("The virtfleet_network %q removes this reservation: in the entry of ips for %s, set dhcp "+
		"(dhcp = {} is enough), and don't set dhcp.hosts.", name, subnet)
}
