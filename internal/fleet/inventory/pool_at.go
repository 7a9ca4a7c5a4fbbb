package inventory

import (
	"context"
	"sync"
)

// seenPools are the names of the active storage pools of a host by directory, "" for none, as far as they were asked
// for in a view.
type seenPools struct {
	mu sync.Mutex
	at map[string]string
}

// PoolAt returns the name of the active storage pool whose directory this is, as of the view: all VMs with files there
// ask the same. It returns "" if there is none, or if that is unknown.
func (v *View) PoolAt(ctx context.Context, h *Host, dir string) string {
	v.pools.mu.Lock()
	defer v.pools.mu.Unlock()

	if name, asked := v.pools.at[dir]; asked {
		return name
	}

	p, err := h.Conn.StoragePoolAt(ctx, dir)
	if err != nil && !IsNotFound(err) {
		return ""
	}

	if v.pools.at == nil {
		v.pools.at = map[string]string{}
	}

	v.pools.at[dir] = ""
	if p != nil {
		v.pools.at[dir] = p.Name
	}

	return v.pools.at[dir]
}
