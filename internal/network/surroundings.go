package network

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// Addresses returns the host's addresses on the network, with the lengths of their prefixes.
func (s Spec) Addresses() []netip.Prefix {
	addresses := []netip.Prefix{}
	for _, ip := range s.IPs {
		if p, err := netip.ParsePrefix(ip.Address); err == nil {
			addresses = append(addresses, p)
		}
	}
	return addresses
}

// SameSubnet returns a subnet that both networks have; "" if there is none. libvirt starts no network with an IPv4
// subnet that the host already has.
func SameSubnet(a, b []netip.Prefix) string {
	for _, p := range a {
		if p.Addr().Is4() && slices.ContainsFunc(b, func(q netip.Prefix) bool { return p.Masked() == q.Masked() }) {
			return p.Masked().String()
		}
	}
	return ""
}

// Overlap returns subnets of two networks that have addresses in common without being one IPv4 subnet. libvirt starts
// both networks.
func Overlap(a, b []netip.Prefix) (of, with netip.Prefix, found bool) {
	for _, p := range a {
		for _, q := range b {
			if p.Overlaps(q) && (p.Addr().Is6() || p.Masked() != q.Masked()) {
				return p.Masked(), q.Masked(), true
			}
		}
	}
	return of, with, false
}

// ActiveNetwork is an active network of a host.
type ActiveNetwork struct {
	// Addresses are the host's addresses on the network.
	Addresses []netip.Prefix
	// Bridge is its bridge; "" if it has none.
	Bridge string
}

// ActiveNetworks returns the host's active networks by their names.
func ActiveNetworks(ctx context.Context, h *libvirt.Host) (map[string]ActiveNetwork, error) {
	networks, err := h.Networks(ctx)
	if err != nil {
		return nil, err
	}
	active := map[string]ActiveNetwork{}
	for _, n := range networks {
		if !n.Active {
			continue
		}
		d, err := parseDefinition(n.XML)
		if err != nil {
			return nil, err
		}
		s := d.Spec()
		is := ActiveNetwork{Addresses: s.Addresses()}
		if s.Bridge != nil {
			is.Bridge = *s.Bridge
		}
		active[n.Name] = is
	}
	return active, nil
}

// HostDevices returns the network devices of the host that the network uses: devices, physical_function, and a bridge
// that libvirt doesn't create.
func (s Spec) HostDevices() []string {
	if s.Forward == nil {
		return nil
	}
	devices := slices.Clone(s.Forward.Devices)
	if s.Forward.PhysicalFunction != "" {
		devices = append(devices, s.Forward.PhysicalFunction)
	}
	if s.Bridge != nil && !slices.Contains(BridgeModes, s.Forward.Mode) {
		devices = append(devices, *s.Bridge)
	}
	return devices
}

// Drops returns the subnet in which the definition has no place for the reservation: its block lists all reservations,
// or says that it has no DHCP, and every apply of the network would remove this one.
func (s Spec) Drops(h DHCPHost) (subnet string, drops bool) {
	address, err := netip.ParseAddr(h.IP)
	for _, ip := range s.IPs {
		prefix, prefixErr := netip.ParsePrefix(ip.Address)
		if err != nil || prefixErr != nil || !prefix.Contains(address) {
			continue
		}
		if ip.DHCP == nil || ip.managesHosts() && !slices.ContainsFunc(ip.DHCP.Hosts, func(listed DHCPHost) bool {
			return listed.normal() == h.normal()
		}) {
			return prefix.Masked().String(), true
		}
	}
	return "", false
}

// OtherDHCP returns the subnet in which the network declares DHCP, if the reservation is in another one of the same
// family: libvirt has DHCP in one subnet of each.
func (s Spec) OtherDHCP(h DHCPHost) (subnet string, other bool) {
	address, err := netip.ParseAddr(h.IP)
	for _, ip := range s.IPs {
		prefix, prefixErr := netip.ParsePrefix(ip.Address)
		if err != nil || prefixErr != nil || !ip.declaresDHCP() {
			continue
		}
		if prefix.Addr().Is4() == address.Is4() && !prefix.Contains(address) {
			return prefix.Masked().String(), true
		}
	}
	return "", false
}

// Misfit returns why a network with these addresses can't have the reservation; "" if it can.
func (h DHCPHost) Misfit(network string, addresses []netip.Prefix) string {
	address, err := netip.ParseAddr(h.IP)
	if err != nil {
		return fmt.Sprintf("%q isn't an address.", h.IP)
	}
	var subnets []string
	for _, a := range addresses {
		switch {
		case a.Addr() == address:
			return fmt.Sprintf("%s is the host's own address on network %q. Set ip to another address of %s.", h.IP, network,
				a.Masked())
		case a.Contains(address):
			return ""
		}
		subnets = append(subnets, a.Masked().String())
	}
	if len(subnets) == 0 {
		return fmt.Sprintf("Network %q has no address range: its ips are empty, so it has no DHCP.", network)
	}
	return fmt.Sprintf("Network %q has no address range that %s is in. Set ip to an address of %s.", network, h.IP,
		strings.Join(subnets, " or "))
}
