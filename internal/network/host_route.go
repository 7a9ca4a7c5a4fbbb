package network

import (
	"context"
	"encoding/hex"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
)

// routeTable is where Linux shows its IPv4 routes, and where libvirt looks for them before it starts a network.
// routeTableSize is enough for about a thousand routes.
const (
	routeTable     = "/proc/net/route"
	routeTableSize = 128 << 10
)

// HostRoute is an IPv4 route of a host.
type HostRoute struct {
	Interface string
	Subnet    netip.Prefix
}

// HostRoutes returns the IPv4 routes of a host; none if its files can't be read.
func HostRoutes(ctx context.Context, h hostset.Host) ([]HostRoute, error) {
	if h.ReadEnd == nil {
		return nil, nil
	}
	table, err := h.ReadEnd(ctx, routeTable, routeTableSize)
	return readRoutes(string(table)), err
}

// readRoutes reads the routes in Linux's table. Lines that aren't complete routes are left out.
func readRoutes(table string) (routes []HostRoute) {
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		if len(fields) < 8 {
			continue
		}
		// The bytes are in the order of the host. A big-endian host has no valid mask here, and is left out.
		destination, mask := reversed(fields[1]), net.IPMask(reversed(fields[7]))
		address, ok := netip.AddrFromSlice(destination)
		length, size := mask.Size()
		if subnet := netip.PrefixFrom(address, length); ok && size == address.BitLen() && subnet == subnet.Masked() {
			routes = append(routes, HostRoute{Interface: fields[0], Subnet: subnet})
		}
	}
	return routes
}

// reversed returns the bytes of a hexadecimal number in reverse order; nil if it isn't one.
func reversed(number string) []byte {
	all, err := hex.DecodeString(number)
	if err != nil {
		return nil
	}
	slices.Reverse(all)
	return all
}

// Collision returns the route of a host that keeps libvirt from starting the network there: the subnet of one of its
// addresses or routes is that of the host's route. Routes through the bridges of networks don't count.
func (s Spec) Collision(routes []HostRoute, bridges []string) (with HostRoute, found bool) {
	subnets := s.Addresses()
	for _, r := range s.Routes {
		if p, err := netip.ParsePrefix(r.Destination); err == nil {
			subnets = append(subnets, p)
		}
	}
	for _, r := range routes {
		same := func(p netip.Prefix) bool { return p.Masked() == r.Subnet }
		if !slices.Contains(bridges, r.Interface) && slices.ContainsFunc(subnets, same) {
			return r, true
		}
	}
	return with, false
}
