package inventory

import (
	"context"
	"sync"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
)

// networksAge is how long the list of a host's own networks is cached. It hardly ever changes, and a scrape shouldn't
// cost a call for each VM.
const networksAge = 5 * time.Minute

// ownNetworks is the cached list of a host's own networks.
type ownNetworks struct {
	sync.Mutex

	at  time.Time
	own map[string]bool
}

// OwnNetworks returns the names of the networks that don't leave the host, or nil if they are unknown.
func (h *Host) OwnNetworks(ctx context.Context) map[string]bool {
	h.networks.Lock()
	defer h.networks.Unlock()

	if time.Since(h.networks.at) < networksAge {
		return h.networks.own
	}

	list, err := h.Conn.Networks(ctx)
	if err != nil {
		return nil
	}

	h.networks.at, h.networks.own = time.Now(), map[string]bool{}
	for _, n := range list {
		if migration.IsHostLocal(n) {
			h.networks.own[n.Name] = true
		}
	}

	return h.networks.own
}
