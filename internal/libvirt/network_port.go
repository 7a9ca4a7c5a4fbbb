package libvirt

import (
	"context"
	"errors"

	golibvirt "libvirt.org/go/libvirt"
)

// NetworkPorts returns the UUIDs of the ports of a network: of the interfaces that libvirt connects to it
// (virNetworkListAllPorts). Stopping a network removes its ports. It returns ErrNotFound if the host answered and has
// no network of that name.
func (h *Host) NetworkPorts(ctx context.Context, name string) ([]string, error) {
	return onNetwork(ctx, h, readCall("listing ports of network "+name), name,
		func(c *conn, n *golibvirt.Network) (uuids []string, err error) {
			c.countCall("virNetworkListAllPorts")
			ports, err := n.ListAllPorts(0)
			for i := range ports {
				uuid, readErr := ports[i].GetUUIDString()
				uuids = append(uuids, uuid)
				err = errors.Join(err, readErr, ports[i].Free())
			}
			return uuids, err
		})
}
