package storage

import (
	"cmp"
	"context"
	"sync"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// HostPool is a pool of a host.
type HostPool struct {
	Pool

	UUID              string
	Active, Autostart bool
	// Outdated says that the pool is active with an earlier definition than its persistent one.
	Outdated bool
	// Live is the definition with which the pool is active; of an inactive pool, the persistent one.
	Live Pool
	// Shared says that all hosts see the same volumes, because of the type or of the record of PoolSettings.Shared.
	Shared bool
}

// PoolOn reads a pool of every host of the set.
func PoolOn(ctx context.Context, hosts hostset.Set, name string) []hostset.Answer[HostPool] {
	return hostset.Ask(ctx, hosts, func(ctx context.Context, h *libvirt.Host) (*HostPool, error) {
		// The mark is asked for together with the pool, which may not need it: afterwards, it would cost a round trip.
		var marked bool
		var markErr error
		var mark sync.WaitGroup
		mark.Go(func() { marked, markErr = hasMark(ctx, h, sharedMark+name) })
		is, err := h.StoragePool(ctx, name)
		mark.Wait()
		if err != nil {
			return nil, err
		}
		p, err := ReadPool(is.XML)
		if err != nil {
			return nil, err
		}
		live, err := ReadPool(cmp.Or(is.LiveXML, is.XML))
		if err != nil {
			return nil, err
		}
		found := &HostPool{
			Pool: *p, UUID: is.UUID, Active: is.Active, Autostart: is.Autostart, Shared: SharedType(p.Type), Live: *live,
			Outdated: !p.isActiveAs(*live),
		}
		if !found.Shared {
			if markErr != nil {
				return nil, markErr
			}
			found.Shared = marked
		}
		return found, nil
	})
}
