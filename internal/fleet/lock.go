package fleet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/lease"
)

// lockOn takes the lease called name on the host, waiting for other runs until
// ctx ends. Those are told "<owner> is <purpose> it". What is changed under it
// takes the returned context, which carries the lease and ends with ctx, or when
// the lease is lost; release must be called.
func (f *Fleet) lockOn(ctx context.Context, h *inventory.Host, name, purpose string) (context.Context, func(), error) {
	held, l, err := f.leaseOn(ctx, h, name, purpose)
	if err != nil {
		return nil, nil, err
	}

	return held, l.Release, nil
}

// leaseOn is lockOn for a lease that another context is to carry later.
func (f *Fleet) leaseOn(
	ctx context.Context, h *inventory.Host, name, purpose string,
) (context.Context, *lease.Held, error) {
	held, l, err := f.leases.Take(ctx, h.Conn, name, purpose)

	if taken, ok := errors.AsType[*lease.Error](err); ok && errors.Is(err, lease.ErrHeld) {
		err = &inventory.Error{
			Host: h.Name, Kind: ErrLocked, Err: taken.Err, Detail: taken.Holder,
			Remedy: "Wait for that run to end. A lock whose run was killed is taken over after " +
				lease.TakeoverTime.String() + ".",
		}
	}

	return held, l, err
}

// unfinished are the leases of VMs that are being created, by UUID.
type unfinished struct {
	mu     sync.Mutex
	leases map[string]*lease.Held
}

func (u *unfinished) keep(id string, l *lease.Held) {
	u.mu.Lock()
	defer u.mu.Unlock()

	if u.leases == nil {
		u.leases = make(map[string]*lease.Held)
	}

	u.leases[id] = l
}

// of is the lease of a VM, nil when it isn't being created.
func (u *unfinished) of(id string) *lease.Held {
	u.mu.Lock()
	defer u.mu.Unlock()

	return u.leases[id]
}

func (u *unfinished) release(id string) {
	u.mu.Lock()
	l := u.leases[id]
	delete(u.leases, id)
	u.mu.Unlock()

	if l != nil {
		l.Release()
	}
}

// releaseAll gives back the leases of creations that nobody finished.
func (u *unfinished) releaseAll() {
	u.mu.Lock()
	ids := slices.Collect(maps.Keys(u.leases))
	u.mu.Unlock()

	for _, id := range ids {
		u.release(id)
	}
}

// cleanupTimeout bounds what is done after the caller gave up: a cancelled
// apply has to end within seconds.
const cleanupTimeout = 5 * time.Second

// LockOn takes the lock called name on a host, waiting for other runs until ctx
// ends; purpose tells those who wait what is being done. The returned context
// ends with ctx, and when the lock is lost; release must be called.
func (f *Fleet) LockOn(
	ctx context.Context, host, name, purpose string,
) (held context.Context, release func(), err error) {
	h := f.Host(host)
	if h == nil {
		return nil, nil, &inventory.Error{
			Host: host, Kind: inventory.ErrInvalid,
			Detail: fmt.Sprintf("host %q is not configured", host),
		}
	}

	return f.lockOn(ctx, h, name, purpose)
}
