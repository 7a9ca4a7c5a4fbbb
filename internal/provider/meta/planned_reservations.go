package meta

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/network"
)

// othersPlanned is how long a plan waits for that of another reservation, since the last one was planned: Terraform
// plans several at the same time, but not those that -target leaves out.
const othersPlanned = 2 * time.Second

// PlannedReservation is the reservation that a resource is to have.
type PlannedReservation struct {
	// ID is that of the resource.
	ID, Network string
	network.DHCPHost
	// Owned says that the resource in the state has the reservation already, Kept that it stays as it is.
	Owned, Kept bool
}

// reservationPlans are what is planned for reservations.
type reservationPlans struct {
	all []PlannedReservation
	// settled are the ids of reservations in the state whose resource was planned.
	settled map[string]bool
	last    time.Time // when a reservation was planned last
	// waiting are errors that hold if the plan keeps a reservation as it is.
	waiting map[string]diag.Diagnostics
}

// Plan records a planned reservation, whose id is "" if it isn't known yet, and that the resource of the id before, ""
// for a new one, has been planned. It returns the reservations of the same network that were planned earlier, so that
// of two exactly one learns of the other, and the errors of IfKept that hold now.
func (r *Reservations) Plan(p PlannedReservation, before string) (earlier []PlannedReservation, kept diag.Diagnostics) {
	r.mu.Lock()
	defer r.mu.Unlock()
	plans := &r.plans
	earlier = plans.in(p.Network)
	if p.ID != "" && !slices.Contains(plans.all, p) { // A replacement is planned twice.
		plans.all = append(plans.all, p)
	}
	if before != "" {
		plans.settle(before)
	}
	if p.Kept {
		kept = plans.waiting[p.ID] // IfKept adds none from here on.
		delete(plans.waiting, p.ID)
	}
	return earlier, kept
}

// PlanDestroy records that the plan removes the reservation of a resource.
func (r *Reservations) PlanDestroy(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.plans.settle(id)
}

// Planned returns the reservations that resources are to have in a network, as far as they were planned.
func (r *Reservations) Planned(networkName string) []PlannedReservation {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.plans.in(networkName)
}

// IfKept returns errors that hold if the plan keeps a reservation as it is. If that isn't known yet, Plan returns them.
func (r *Reservations) IfKept(id string, errors diag.Diagnostics) diag.Diagnostics {
	r.mu.Lock()
	defer r.mu.Unlock()
	plans := &r.plans
	if slices.ContainsFunc(plans.all, func(p PlannedReservation) bool { return p.ID == id && p.Kept }) {
		return errors
	}
	if plans.waiting == nil {
		plans.waiting = map[string]diag.Diagnostics{}
	}
	plans.waiting[id] = append(plans.waiting[id], errors...)
	return nil
}

// AwaitPlan waits until the resource that has a reservation is planned. It returns false if no reservation was planned
// for a while: Terraform doesn't plan that resource, or plans it later.
func (r *Reservations) AwaitPlan(ctx context.Context, id string) bool {
	begun := time.Now()
	for {
		r.mu.Lock()
		settled := r.plans.settled[id]
		last := r.plans.last
		r.mu.Unlock()
		if settled || ctx.Err() != nil || time.Since(begun) > othersPlanned && time.Since(last) > othersPlanned {
			return settled
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

func (p *reservationPlans) in(networkName string) (all []PlannedReservation) {
	for _, planned := range p.all {
		if planned.Network == networkName {
			all = append(all, planned)
		}
	}
	return all
}

func (p *reservationPlans) settle(id string) {
	if p.settled == nil {
		p.settled = map[string]bool{}
	}
	p.settled[id], p.last = true, time.Now()
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
