package inventory

import (
	"context"
	"sync"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
)

// networksAge is how long it is remembered which networks are a host's own: they hardly ever change, and a scrape is to
// cost no call for each.
const networksAge = 5 * time.Minute

// ownNetworks is what a host was seen to have.
type ownNetworks struct {
	sync.Mutex

	at  time.Time
	own map[string]bool
}

// OwnNetworks are the names of the networks that end at the host. Nil: it can't be told.
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
