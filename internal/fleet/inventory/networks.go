package inventory

import (
	"context"
	"slices"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// networksAge is how long the list of a host's own networks is cached. It hardly ever changes, and a scrape shouldn't
// cost a call for each VM.
const networksAge = 5 * time.Minute

// ownNetworks are a host's own networks.
type ownNetworks struct {
	at  time.Time
	own map[string]bool
}

// networkList are the networks of a host.
type networkList struct {
	asked    time.Time
	changes  uint64 // libvirt.Host.NetworkChanges before the host was asked
	networks []libvirt.Network
}

// portList are the UUIDs of the ports of a network.
type portList struct {
	asked   time.Time
	changes uint64 // libvirt.Host.NetworkChanges before the host was asked
	uuids   []string
}

// existence is what a host said about an object: a network device or a network filter.
type existence struct {
	asked         time.Time
	changes       uint64 // libvirt.Host.NetworkChanges before the host was asked
	exists, known bool
}

// BridgeExists is libvirt.Host.BridgeExists, cached for viewAge: a plan of many VMs asks once about each bridge. That a
// bridge is missing isn't cached, because whoever asks next may have waited for its creation.
func (h *Host) BridgeExists(ctx context.Context, name string) (exists, known bool, err error) {
	return h.existsIn(ctx, &h.bridges, name, h.Conn.BridgeExists)
}

// HasNWFilter is libvirt.Host.HasNWFilter, cached as BridgeExists is.
func (h *Host) HasNWFilter(ctx context.Context, name string) (bool, error) {
	ask := func(ctx context.Context, name string) (exists, known bool, err error) {
		exists, err = h.Conn.HasNWFilter(ctx, name)

		return exists, true, err
	}

	has, _, err := h.existsIn(ctx, &h.filters, name, ask)

	return has, err
}

// existsIn returns whether the object exists, from the answers or by asking the host.
func (h *Host) existsIn(
	ctx context.Context, answers *asked[existence], name string,
	ask func(ctx context.Context, name string) (exists, known bool, err error),
) (exists, known bool, err error) {
	began := time.Now()
	current := func(is existence) bool {
		missing := is.known && !is.exists

		return !is.asked.Before(began) ||
			!missing && is.changes == h.Conn.NetworkChanges() && time.Since(is.asked) < viewAge
	}

	is, err := answers.getIf(ctx, name, current, func(ctx context.Context) (existence, error) {
		asked, changes := time.Now(), h.Conn.NetworkChanges()
		exists, known, err := ask(ctx, name)

		return existence{asked, changes, exists, known}, err
	})

	return is.exists, is.known, err
}

// Networks returns the host's networks, cached for viewAge: a plan of many VMs asks once. The host is asked again if
// this process has changed networks since, or if enough says that the cached ones lack what the caller needs: another
// tool may have added that. Callers must not change the result.
func (h *Host) Networks(ctx context.Context, enough func([]libvirt.Network) bool) ([]libvirt.Network, error) {
	began := time.Now()
	current := func(l networkList) bool {
		return !l.asked.Before(began) ||
			l.changes == h.Conn.NetworkChanges() && time.Since(l.asked) < viewAge && enough(l.networks)
	}

	l, err := h.networks.getIf(ctx, "", current, func(ctx context.Context) (networkList, error) {
		l := networkList{asked: time.Now(), changes: h.Conn.NetworkChanges()}

		var err error
		l.networks, err = h.Conn.Networks(ctx)

		return l, err
	})

	return l.networks, err
}

// HasNetworkPort reports whether a network has the port. The ports of a network are cached for viewAge: a plan of many
// VMs asks once. That a port is missing isn't cached, because a VM gets a new one with each start.
func (h *Host) HasNetworkPort(ctx context.Context, network, uuid string) (bool, error) {
	began := time.Now()
	current := func(l portList) bool {
		return !l.asked.Before(began) || l.changes == h.Conn.NetworkChanges() && time.Since(l.asked) < viewAge &&
			slices.Contains(l.uuids, uuid)
	}

	l, err := h.ports.getIf(ctx, network, current, func(ctx context.Context) (portList, error) {
		l := portList{asked: time.Now(), changes: h.Conn.NetworkChanges()}

		var err error
		if l.uuids, err = h.Conn.NetworkPorts(ctx, network); IsNotFound(err) {
			err = nil
		}

		return l, err
	})

	return slices.Contains(l.uuids, uuid), err
}

// OwnNetworks returns the names of the networks that don't leave the host, or nil if they are unknown.
func (h *Host) OwnNetworks(ctx context.Context) map[string]bool {
	current := func(n ownNetworks) bool { return time.Since(n.at) < networksAge }

	n, err := h.ownNetworks.getIf(ctx, "", current, func(ctx context.Context) (ownNetworks, error) {
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
// interfaces, by network; nil if there are none. Only that a network isn't such a one is cached.
func (h *Host) HandedOut(ctx context.Context, names []string) map[string][]string {
	if len(names) == 0 {
		return nil
	}

	networks, err := h.Networks(ctx, func(networks []libvirt.Network) bool {
		return !slices.ContainsFunc(names, func(name string) bool {
			at := slices.IndexFunc(networks, func(n libvirt.Network) bool { return n.Name == name })

			return at < 0 || len(networks[at].Devices) > 0
		})
	})
	if err != nil {
		return nil // libvirt then reports a network that has no device left
	}

	var devices map[string][]string

	for _, n := range networks {
		if n.Active && len(n.Devices) > 0 && slices.Contains(names, n.Name) {
			if devices == nil {
				devices = make(map[string][]string)
			}

			devices[n.Name] = n.Devices
		}
	}

	return devices
}
