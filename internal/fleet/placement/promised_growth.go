package placement

import (
	"context"
	"sync"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// Without storage_overprovisioning_factor, thin disks may grow to more than their pool has. A new VM still goes rather
// to a host whose pools have all of that.

// poolPromise is the size of a storage pool, and what its volumes and the VM's new disks may grow to, all together.
type poolPromise struct{ capacity, growth uint64 }

// newGrowth returns what the VM's new disks may grow to on the host, by storage pool.
func (d Desired) newGrowth(ctx context.Context, h *inventory.Host) map[string]uint64 {
	growth := map[string]uint64{}
	for _, o := range d.OwnDisks {
		growth[o.Pool] = storage.Demand{Growth: growth[o.Pool]}.Plus(readDemand(ctx, h, o)).Growth
	}

	return growth
}

// judgePromises finds out what the volumes in the pools of the VM's new disks may grow to, on the hosts that fit
// otherwise. It lists volumes only if there is a choice: if the VM has new disks, and several hosts fit.
func (p *Scheduler) judgePromises(ctx context.Context, all []candidate, d Desired) {
	var fit []*candidate

	for i := range all {
		if len(all[i].problems) == 0 {
			fit = append(fit, &all[i])
		}
	}

	if len(d.OwnDisks) == 0 || len(fit) < 2 {
		return
	}

	var wg sync.WaitGroup

	for _, c := range fit {
		wg.Go(func() { c.growth, c.promises = p.promises(ctx, c.Reply, d) })
	}

	wg.Wait()
	p.reservations.mu.Lock()
	defer p.reservations.mu.Unlock()

	for _, c := range fit {
		c.overpromised = p.exceedsPromises(c, d.Spec.Name)
	}
}

// promises returns what the VM's new disks may grow to on the host, and the promises of their pools. It leaves out
// pools that it can't read, or whose size libvirt doesn't know.
func (cy *Capacity) promises(
	ctx context.Context, a inventory.Reply, d Desired,
) (growth map[string]uint64, promises map[string]poolPromise) {
	growth, promises = d.newGrowth(ctx, a.Host), map[string]poolPromise{}

	for name, adds := range growth {
		pool, err := a.Host.Conn.StoragePool(ctx, name)
		if err != nil || pool.CapacityBytes == 0 {
			continue
		}

		r, err := storage.RoomOf(ctx, cy.listing(a.Host), pool, 1)
		if err != nil {
			continue
		}

		pending := cy.pendingDemand(ctx, a, d.Spec.Name, name)
		all := pending.Plus(storage.Demand{Growth: r.Growth}).Plus(storage.Demand{Growth: adds})
		promises[name] = poolPromise{capacity: pool.CapacityBytes, growth: all.Growth}
	}

	return growth, promises
}

// exceedsPromises reports whether the volumes of a pool may grow to more than it has, with those of the VMs for which
// the host was chosen meanwhile, without the VM of that name. The caller holds the reservations' mutex.
func (cy *Capacity) exceedsPromises(c *candidate, name string) bool {
	for pool, is := range c.promises {
		sum := storage.Demand{Growth: is.growth}

		for other, r := range cy.reservations.byHost[c.Host.Name] {
			if other != name && r.pools == nil { // pendingDemand has the others.
				sum = sum.Plus(storage.Demand{Growth: r.growth[pool]})
			}
		}

		for other, r := range cy.reservations.expected[c.Host.Name] {
			if _, reserved := cy.reservations.byHost[c.Host.Name][other]; other != name && !reserved {
				sum = sum.Plus(storage.Demand{Growth: r.growth[pool]})
			}
		}

		if sum.Growth > is.capacity {
			return true
		}
	}

	return false
}
