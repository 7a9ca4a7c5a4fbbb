package lifecycle

import (
	"maps"
	"slices"
	"sync"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/lease"
)

// pendingCreates are the leases of VMs that are being created, by UUID.
type pendingCreates struct {
	mu     sync.Mutex
	leases map[string]*lease.Held
}

// add keeps the lease of a VM that is being created.
func (p *pendingCreates) add(id string, l *lease.Held) {
	p.mu.Lock()
	defer p.mu.Unlock()

	if p.leases == nil {
		p.leases = make(map[string]*lease.Held)
	}

	p.leases[id] = l
}

// leaseOf returns the lease of a VM, or nil if the VM isn't being created.
func (p *pendingCreates) leaseOf(id string) *lease.Held {
	p.mu.Lock()
	defer p.mu.Unlock()

	return p.leases[id]
}

// release releases the lease of a VM whose creation is finished.
func (p *pendingCreates) release(id string) {
	p.mu.Lock()
	l := p.leases[id]
	delete(p.leases, id)
	p.mu.Unlock()

	if l != nil {
		l.Release()
	}
}

// releaseAll releases the leases of all VMs whose creation is not finished.
func (p *pendingCreates) releaseAll() {
	p.mu.Lock()
	ids := slices.Collect(maps.Keys(p.leases))
	p.mu.Unlock()

	for _, id := range ids {
		p.release(id)
	}
}
