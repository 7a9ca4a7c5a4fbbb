package storage

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// settleTimeout bounds the wait for other runs that create volumes in a pool.
const settleTimeout = 5 * time.Minute

// LockFunc acquires a lock on a host that no other run can hold at the same time. The returned context ends when the
// lock is lost; release must be called.
type LockFunc func(
	ctx context.Context, host, name, purpose string,
) (held context.Context, release func(), err error)

// Storage is the storage of a set of hosts.
type Storage struct {
	Hosts hostset.Set
	Lock  LockFunc
	// Log receives progress.
	Log *slog.Logger
}

// host returns the host of that name.
func (s *Storage) host(name string) (*libvirt.Host, error) {
	h, ok := s.Hosts.Host(name)
	switch {
	case !ok:
		return nil, fmt.Errorf("%w: host %q is not configured", libvirt.ErrInvalid, name)
	case h.Fenced:
		return nil, fmt.Errorf("%w: host %q is fenced", libvirt.ErrInvalid, name)
	}
	return h.Conn, nil
}

// locked runs f while it holds the lock of a volume on a host.
func (s *Storage) locked(
	ctx context.Context, host string, volume Ref, purpose string, f func(context.Context) error,
) error {
	held, release, err := s.Lock(ctx, host, "volume:"+volume.String(), purpose)
	if err != nil {
		return err
	}
	defer release()
	return f(held)
}

// lockedForAll is locked for what other hosts may have a part in: if hosts share the pool, it takes the lock on each of
// them that answers, in the order of their names. Runs that reach the pool through different hosts then exclude each
// other. The context of f ends when the lock on that host is lost, not when another host goes down meanwhile.
func (s *Storage) lockedForAll(
	ctx context.Context, host string, volume Ref, purpose string, f func(context.Context) error,
) error {
	names := append(s.Sharing(ctx, host, volume.Pool).Names(), host)
	slices.Sort(names)
	next := f
	for _, name := range slices.Backward(names) {
		inner := next
		next = func(ctx context.Context) error {
			return s.locked(ctx, name, volume, purpose, func(held context.Context) error {
				if name != host {
					held = ctx
				}
				return inner(held)
			})
		}
	}
	return next(ctx)
}

// EnsureActive starts a pool that isn't active.
func (s *Storage) EnsureActive(ctx context.Context, host, pool string) error {
	h, err := s.host(host)
	if err != nil {
		return err
	}
	p, err := h.StoragePool(ctx, pool)
	if err != nil || p.Active {
		return err
	}
	return h.StartStoragePool(ctx, pool)
}
