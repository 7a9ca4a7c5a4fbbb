package network

import (
	"context"
	"encoding/binary"
	"math/bits"
	"net/netip"
	"slices"
	"strconv"
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
		destination, err := strconv.ParseUint(fields[1], 16, 32)
		mask, maskErr := strconv.ParseUint(fields[7], 16, 32)
		if err != nil || maskErr != nil {
			continue
		}
		// The numbers are in the byte order of the host. That of a big-endian host has no mask here, and is left out.
		var address [4]byte
		binary.LittleEndian.PutUint32(address[:], uint32(destination))
		ones := bits.ReverseBytes32(uint32(mask))
		length := bits.LeadingZeros32(^ones)
		subnet := netip.PrefixFrom(netip.AddrFrom4(address), length)
		if bits.OnesCount32(ones) == length && subnet == subnet.Masked() {
			routes = append(routes, HostRoute{Interface: fields[0], Subnet: subnet})
		}
	}
	return routes
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
