package placement

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"strings"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
)

// warnedOfRoom is how many VMs of one run are reported that don't fit together with the others. One is enough to know,
// and each costs a look at all hosts.
const warnedOfRoom = 20

// planSomewhere finds a host that can take a new VM together with the others that are planned there. It returns a
// warning if there is none: each of them could have a host alone. The others may be placed differently when they are
// created, so that this is no error.
func (p *Scheduler) planSomewhere(
	ctx context.Context, d Desired, start plannedStart, fit []candidate,
) []inventory.Problem {
	for _, c := range fit {
		start.reservation = c.reservationOf(d, start)
		if start.off && !start.apart() {
			return nil // It needs nothing that others may take.
		}

		start.likely = c.Host.Name
		if !p.hasRoomToo(c.Reply, d.Spec.Name, start) {
			continue
		}

		start.has = offerTo(ctx, c.Reply, start.use, start.uuid)
		if blockers, _ := p.planLikely(c.Reply, d.Spec.Name, start); len(blockers) == 0 {
			return nil
		}
	}

	if p.reservations.roomWarnings.Add(1) > warnedOfRoom {
		return nil
	}

	var refused []string

	for _, c := range fit {
		start.reservation, start.likely = c.reservationOf(d, start), c.Host.Name
		start.has = offerTo(ctx, c.Reply, start.use, start.uuid)
		blockers, others := p.planLikely(c.Reply, d.Spec.Name, start)

		for _, b := range blockers {
			refused = append(refused, fmt.Sprintf("  - host %q, with the %d that may come there, too: %s", c.Host.Name, others,
				b.Message))
		}
	}

	return []inventory.Problem{{
		Summary: placeSummary, Warning: true,
		Detail: fmt.Sprintf("There may be no host for VM %q: the others that are planned need the hosts, too.\n%s",
			d.Spec.Name, strings.Join(refused, "\n")),
		Remedy: "Make room on a host, add one, or create fewer VMs.",
	}}
}

// hasRoomToo reports whether the likely host of a VM has memory for it and for the others that are planned there.
func (cy *Capacity) hasRoomToo(on inventory.Reply, name string, s plannedStart) bool {
	cy.reservations.mu.Lock()
	defer cy.reservations.mu.Unlock()

	taken := s.bytes

	for other, o := range cy.reservations.plannedOn[s.likely] {
		if other != name {
			taken += o.bytes
		}
	}

	return taken == 0 || taken <= cy.free(on, s.uuid)
}

// planLikely records the likely host of a VM, unless it can't take the VM together with the others that are planned
// there. Then it returns what blocks it, and how many these are.
func (cy *Capacity) planLikely(
	on inventory.Reply, name string, s plannedStart,
) (blockers []migration.Blocker, others int) {
	cy.reservations.mu.Lock()
	defer cy.reservations.mu.Unlock()

	there := maps.Clone(cy.reservations.plannedOn[s.likely])
	delete(there, name)

	if blockers = cy.blockersTogether(on, name, s.reservation, there); len(blockers) > 0 {
		return blockers, len(there)
	}

	if mine, ok := cy.reservations.planned[name]; ok {
		mine.likely, mine.reservation = s.likely, s.reservation
		cy.reservations.plan(name, mine)
	}

	return nil, 0
}

// plan records a planned start. The caller holds the mutex.
func (r *reservations) plan(name string, s plannedStart) {
	r.unplan(name)

	if r.planned == nil {
		r.planned, r.plannedOn = make(map[string]plannedStart), make(map[string]map[string]plannedStart)
	}

	r.planned[name] = s

	host := cmp.Or(s.host, s.likely)
	if host == "" || s.runs {
		return
	}

	if r.plannedOn[host] == nil {
		r.plannedOn[host] = make(map[string]plannedStart)
	}

	r.plannedOn[host][name] = s
}

// unplan removes a planned start. The caller holds the mutex.
func (r *reservations) unplan(name string) {
	s := r.planned[name]
	delete(r.plannedOn[cmp.Or(s.host, s.likely)], name)
	delete(r.planned, name)
}
