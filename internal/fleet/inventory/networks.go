package inventory

import (
	"context"
	"slices"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
)

// networksAge is how long the list of a host's own networks is cached. It hardly ever changes, and a scrape shouldn't
// cost a call for each VM.
const networksAge = 5 * time.Minute

// ownNetworks are a host's own networks.
type ownNetworks struct {
	at  time.Time
	own map[string]bool
}

// handedDevices are the networks of a host by what they give to interfaces.
type handedDevices struct {
	at time.Time
	// plain are the networks that give interfaces no device of the host, devices the PCI devices that active ones give.
	plain   map[string]bool
	devices map[string][]string
}

// deviceAnswer is what a host said about a network device.
type deviceAnswer struct {
	asked         time.Time
	exists, known bool
}

// BridgeExists is libvirt.Host.BridgeExists, cached for viewAge: a plan of many VMs asks once about each bridge. That a
// bridge is missing isn't cached, because whoever asks next may have waited for its creation.
func (h *Host) BridgeExists(ctx context.Context, name string) (exists, known bool, err error) {
	began := time.Now()
	current := func(a deviceAnswer) bool {
		missing := a.known && !a.exists

		return !a.asked.Before(began) || !missing && time.Since(a.asked) < viewAge
	}

	a, err := h.bridges.getIf(ctx, name, current, func(ctx context.Context) (deviceAnswer, error) {
		asked := time.Now()
		exists, known, err := h.Conn.BridgeExists(ctx, name)

		return deviceAnswer{asked, exists, known}, err
	})

	return a.exists, a.known, err
}

// OwnNetworks returns the names of the networks that don't leave the host, or nil if they are unknown.
func (h *Host) OwnNetworks(ctx context.Context) map[string]bool {
	current := func(n ownNetworks) bool { return time.Since(n.at) < networksAge }

	n, err := h.networks.getIf(ctx, "", current, func(ctx context.Context) (ownNetworks, error) {
		list, err := h.Conn.Networks(ctx)
		n := ownNetworks{at: time.Now(), own: map[string]bool{}}

		for _, network := range list {
			if migration.IsHostLocal(network) {
				n.own[network.Name] = true
			}
		}

		return n, err
	})
	if err != nil {
		return nil
	}

	return n.own
}

// HandedOut returns the PCI devices that those of the networks which are active and of forward mode hostdev give to
// interfaces, by network; nil if there are none. The host is only asked about networks that may be such ones: that a
// network isn't is cached for viewAge, so that a plan of many VMs asks once.
func (h *Host) HandedOut(ctx context.Context, names []string) map[string][]string {
	current := func(n handedDevices) bool {
		return time.Since(n.at) < viewAge && !slices.ContainsFunc(names, func(name string) bool { return !n.plain[name] })
	}

	if len(names) == 0 {
		return nil
	}

	n, err := h.handed.getIf(ctx, "", current, func(ctx context.Context) (handedDevices, error) {
		list, err := h.Conn.Networks(ctx)
		n := handedDevices{at: time.Now(), plain: map[string]bool{}, devices: map[string][]string{}}

		for _, network := range list {
			switch {
			case len(network.Devices) == 0:
				n.plain[network.Name] = true
			case network.Active:
				n.devices[network.Name] = network.Devices
			}
		}

		return n, err
	})
	if err != nil {
		return nil // libvirt then reports a network that has no device left
	}

	var devices map[string][]string

	for _, name := range names {
		if of := n.devices[name]; of != nil {
			if devices == nil {
				devices = make(map[string][]string)
			}

			devices[name] = of
		}
	}

	return devices
}
