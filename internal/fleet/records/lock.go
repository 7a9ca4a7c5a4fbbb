package records

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/lease"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// ErrLocked means that another run is changing the VM.
var ErrLocked = errors.New("another run holds the lock")

// Lock takes the lease called name on the host, waiting for other runs until ctx ends. Runs that wait for this lease
// are told "<owner> is <purpose> it". Changes under the lease use the returned context, which carries the lease and
// ends with ctx, or when the lease is lost. The caller must call release.
func (s *Store) Lock(ctx context.Context, h *inventory.Host, name, purpose string) (context.Context, func(), error) {
	held, l, err := s.Lease(ctx, h, name, purpose)
	if err != nil {
		return nil, nil, err
	}

	return held, l.Release, nil
}

// Lease is Lock for a lease that another context carries later.
func (s *Store) Lease(
	ctx context.Context, h *inventory.Host, name, purpose string,
) (context.Context, *lease.Held, error) {
	held, l, err := s.leases.Take(ctx, h.Conn, name, purpose)

	return held, l, lockedError(h, err)
}

// LeaseAgainstOthers is Lease against other runs only: if an operation of this run has the lock already, it returns no
// lease and no error. It waits until ctx ends; the caller uses the lease with a context of its own.
func (s *Store) LeaseAgainstOthers(
	ctx context.Context, h *inventory.Host, name, purpose string,
) (*lease.Held, error) {
	l, err := s.leases.TakeUnlessOwn(ctx, h.Conn, name, purpose)

	return l, lockedError(h, err)
}

// LiveHolder describes the run that holds the lock called name on the host and renews it; "" if no run does. The time
// that it took to find out that a lock was left behind is saved when Lock takes it over.
func (s *Store) LiveHolder(ctx context.Context, h *inventory.Host, name string) (string, error) {
	return s.leases.LiveHolder(ctx, h.Conn, name)
}

// lockedError adds to the error of a lease that another run has what users can do.
func lockedError(h *inventory.Host, err error) error {
	if taken, ok := errors.AsType[*lease.Error](err); ok && errors.Is(err, lease.ErrHeld) {
		err = &inventory.Error{
			Host: h.Name, Kind: ErrLocked, Err: taken.Err, Detail: taken.Holder,
			Remedy: "Wait for that run to end. A lock whose run was killed is taken over after " +
				lease.TakeoverTime.String() + ".",
		}
	}

	return err
}

// CleanupTimeout limits what is done after the caller gave up: a cancelled apply has to end within seconds.
const CleanupTimeout = 5 * time.Second

// Storage returns the storage of the fleet's hosts. It changes them under locks of the store.
func (s *Store) Storage() *storage.Storage {
	return &storage.Storage{
		Hosts: s.hosts.Connections(), Lock: s.LockOn, Log: s.log, Fresh: &s.fresh, Handovers: &s.handovers,
	}
}

// LockOn takes the lock called name on a host, waiting for other runs until ctx ends; runs that wait for this lock are
// told purpose. The returned context ends with ctx, and when the lock is lost. The caller must call release.
func (s *Store) LockOn(
	ctx context.Context, host, name, purpose string,
) (held context.Context, release func(), err error) {
	h, err := s.configured(host)
	if err != nil {
		return nil, nil, err
	}

	return s.Lock(ctx, h, name, purpose)
}

// LockShared is LockOn for operations that may run at the same time if they are of one run. They have one lock for all,
// until the last one ends. LockOn waits for all of them.
func (s *Store) LockShared(
	ctx context.Context, host, name, purpose string,
) (held context.Context, release func(), err error) {
	h, err := s.configured(host)
	if err != nil {
		return nil, nil, err
	}

	held, release, err = s.leases.TakeShared(ctx, h.Conn, name, purpose)

	return held, release, lockedError(h, err)
}

// configured returns the host of that name.
func (s *Store) configured(host string) (*inventory.Host, error) {
	h := s.hosts.Host(host)
	if h == nil {
		return nil, &inventory.Error{
			Host: host, Kind: inventory.ErrInvalid,
			Detail: fmt.Sprintf("host %q is not configured", host),
		}
	}

	return h, nil
}
