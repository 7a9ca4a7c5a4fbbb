package placement

import (
	"context"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/lease"
)

// placingLock is the lock on one host's room for new VMs. All operations of this run share it: reservations coordinate
// this run's own operations, and the lock keeps other runs out.
type placingLock struct {
	lease *lease.Held
	users int
}

// lockPlacing keeps other runs from placing VMs on the host. What the caller reads and changes under the lock, it does
// with the returned context, which ends when the lock is lost.
func (cy *Capacity) lockPlacing(
	ctx context.Context, h *inventory.Host,
) (held context.Context, unlock func(), err error) {
	l, err := cy.joinPlacing(ctx, h)
	if err != nil {
		return nil, nil, err
	}

	held, end := l.lease.With(ctx)

	return held, func() { end(); cy.leavePlacing(h, l) }, nil
}

// joinPlacing is lockPlacing for a caller that uses the lock in several contexts, which With of the lease returns. The
// first operation of this run that takes the lock also queries the host again, because other runs may have placed VMs
// before. Any further one confirms that this run still has the lock. The caller must call leavePlacing.
func (cy *Capacity) joinPlacing(ctx context.Context, h *inventory.Host) (*placingLock, error) {
	joined, err := cy.reservations.joining.Lock(ctx, h.Name)
	if err != nil {
		return nil, err
	}
	defer joined()

	if l := cy.reservations.join(h); l != nil {
		held, end := l.lease.With(ctx)
		defer end()

		if err := lease.Confirm(held); err != nil {
			cy.leavePlacing(h, l)

			return nil, err
		}

		return l, nil
	}

	held, taken, err := cy.records.Lease(ctx, h, "placement", "placing VMs on")
	if err != nil {
		return nil, err
	}

	if err := cy.hosts.Renew(held, h); err != nil {
		taken.Release()

		return nil, err
	}

	return cy.reservations.begin(h, taken), nil
}

// join counts one more user of this run's lock on the host's room, and returns the lock; nil if the run has none.
func (r *reservations) join(h *inventory.Host) *placingLock {
	r.mu.Lock()
	defer r.mu.Unlock()

	l := r.placing[h.Name]
	if l != nil {
		l.users++
	}

	return l
}

// begin returns the lock on the host's room that this run has taken, with its first user.
func (r *reservations) begin(h *inventory.Host, taken *lease.Held) *placingLock {
	r.mu.Lock()
	defer r.mu.Unlock()

	if r.placing == nil {
		r.placing = make(map[string]*placingLock)
	}

	l := &placingLock{lease: taken, users: 1}
	r.placing[h.Name] = l

	return l
}

// leavePlacing releases the lock when its last user leaves it.
func (cy *Capacity) leavePlacing(h *inventory.Host, l *placingLock) {
	cy.reservations.mu.Lock()

	l.users--

	last := l.users == 0
	if last {
		delete(cy.reservations.placing, h.Name)
	}
	cy.reservations.mu.Unlock()

	if last {
		l.lease.Release()
	}
}
