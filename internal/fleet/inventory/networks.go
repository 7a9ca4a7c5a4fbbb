package inventory

import (
	"context"
	"slices"
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
	// plain are the networks that give interfaces no device of the host, as of plainAt.
	plain   map[string]bool
	plainAt time.Time
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

// HandedOut returns the PCI devices that those of the networks which are active and of forward mode hostdev give to
// interfaces, by network; nil if there are none. The host is only asked about networks that may be such ones: that a
// network isn't is cached for viewAge, so that a plan of many VMs asks once.
func (h *Host) HandedOut(ctx context.Context, names []string) map[string][]string {
	h.networks.Lock()
	defer h.networks.Unlock()

	current := time.Since(h.networks.plainAt) < viewAge
	if !slices.ContainsFunc(names, func(name string) bool { return !current || !h.networks.plain[name] }) {
		return nil
	}

	list, err := h.Conn.Networks(ctx)
	if err != nil {
		return nil // libvirt then reports a network that has no device left
	}

	h.networks.plainAt, h.networks.plain = time.Now(), map[string]bool{}

	var devices map[string][]string

	for _, n := range list {
		switch {
		case len(n.Devices) == 0:
			h.networks.plain[n.Name] = true
		case n.Active && slices.Contains(names, n.Name):
			if devices == nil {
				devices = make(map[string][]string)
			}

			devices[n.Name] = n.Devices
		}
	}

	return devices
}
