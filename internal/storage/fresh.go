package storage

import (
	"context"
	"errors"
	"sync"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
)

// Fresh is which pools a run has refreshed to know their room: libvirt counts what it creates and removes itself, and
// learns what others have written only by a refresh.
type Fresh struct{ pools sync.Map }

// freshPool is a pool of a host. turn is full while one goroutine refreshes it, and done once that has worked.
type freshPool struct {
	turn chan struct{}
	done bool
}

// Freshen has libvirt look how much room a host's pool has, unless this run has done that already. A run does it only
// to decide about what occupies space at once: reading a pool takes long if it has many volumes. A pool that isn't
// active or mounted stays as it is: what needs it says so.
func (s *Storage) Freshen(ctx context.Context, host, pool string) error {
	h, ok := s.Hosts.Host(host)
	if !ok || h.Fenced || s.Fresh == nil {
		return nil
	}
	found, _ := s.Fresh.pools.LoadOrStore([2]string{host, pool}, &freshPool{turn: make(chan struct{}, 1)})
	f, _ := found.(*freshPool)
	select {
	case f.turn <- struct{}{}:
		defer func() { <-f.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if f.done {
		return nil
	}
	p, err := h.Conn.StoragePool(ctx, pool)
	if err != nil || !p.Active || CheckMounted(ctx, h, p) != nil {
		return nil
	}
	if err := refresh(ctx, h.Conn, pool); err != nil {
		return err
	}
	f.done = true
	return nil
}

// FreshenAll has all hosts look how much room these pools have. If that fails on a host, what its libvirt knew before
// counts.
func (s *Storage) FreshenAll(ctx context.Context, pools ...string) {
	if len(pools) == 0 {
		return
	}
	for host, err := range hostset.Each(ctx, s.Hosts.Present(), func(ctx context.Context, h hostset.Host) error {
		var all []error
		for _, pool := range pools {
			all = append(all, s.Freshen(ctx, h.Name, pool))
		}
		return errors.Join(all...)
	}) {
		s.Log.Debug("storage pools were not refreshed", "host", host, "error", err)
	}
}
