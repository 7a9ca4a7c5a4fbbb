package lifecycle

import (
	"maps"
	"slices"
	"sync"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/lease"
)

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
