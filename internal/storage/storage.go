package storage

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
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
	// Fresh is shared by all of a run. Without it, Freshen does nothing.
	Fresh *Fresh
	// Handovers is shared by all of a run.
	Handovers *Handovers
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
// them that answers. Runs that reach the pool through different hosts then exclude each other. The context of f ends
// when the lock on that host is lost, not when another host goes down meanwhile.
func (s *Storage) lockedForAll(
	ctx context.Context, host string, volume Ref, purpose string, f func(context.Context) error,
) error {
	names, err := s.lockOrder(ctx, host, volume.Pool)
	if err != nil {
		return err
	}
	for _, name := range names {
		held, release, err := s.Lock(ctx, name, "volume:"+volume.String(), purpose)
		switch {
		case err == nil:
			defer release()
		case name != host && (errors.Is(err, libvirt.ErrUnreachable) || errors.Is(err, libvirt.ErrNoSecretDriver)):
			continue // It has gone down meanwhile, or no run can change anything through it.
		default:
			return err
		}
		if name == host {
			ctx = held
		}
	}
	return f(ctx)
}

// lockOrder returns a host and those that share its pool, in the order of their libvirt UUIDs: in another run's
// configuration they may have other names. A host that is configured twice is there once.
func (s *Storage) lockOrder(ctx context.Context, host, pool string) ([]string, error) {
	sharing, err := s.Sharing(ctx, host, pool)
	if err != nil {
		return nil, err
	}
	names := append([]string{host}, sharing.Names()...)
	order := map[string]string{} // The names by UUID.
	for _, name := range names {
		uuid := name
		if h, err := s.host(name); err == nil && h.HasFiles() { // All of libvirt's test driver's have one UUID.
			if info, err := h.Info(ctx); err == nil {
				uuid = info.UUID
			}
		}
		if _, twice := order[uuid]; !twice {
			order[uuid] = name
		}
	}
	names = names[:0]
	for _, uuid := range slices.Sorted(maps.Keys(order)) {
		names = append(names, order[uuid])
	}
	return names, nil
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
