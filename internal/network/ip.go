package network

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/beevik/etree"
)

var ranges = list[Range]{
	tag: "range", key: func(r Range) string { return r.Start + " " + r.End },
	read:  func(e *etree.Element) Range { return Range{Start: attr(e, "start"), End: attr(e, "end")} },
	write: func(e *etree.Element, r Range) { set(e, "start", r.Start); set(e, "end", r.End) },
}

var dhcpHosts = list[DHCPHost]{
	tag: "host", key: DHCPHost.key,
	read: func(e *etree.Element) DHCPHost {
		return DHCPHost{
			MAC: strings.ToLower(attr(e, "mac")), DUID: attr(e, "id"), IP: canonicalIP(attr(e, "ip")), Name: attr(e, "name"),
		}
	},
	write: func(e *etree.Element, h DHCPHost) {
		set(e, "mac", h.MAC)
		set(e, "id", h.DUID)
		set(e, "name", h.Name)
		set(e, "ip", h.IP)
	},
}

// key returns the MAC address, DUID or name that the reservation is for.
func (h DHCPHost) key() string {
	if h.MAC == "" && h.DUID == "" {
		return h.Name
	}
	return strings.ToLower(h.MAC + h.DUID)
}

// modifies reports whether libvirt can make the reservation of an earlier one by modifying that. It replaces the first
// one with the MAC address or the name, not by the DUID: with another name, this may be another computer's.
func (h DHCPHost) modifies(have DHCPHost) bool {
	return h.DUID == "" && (h.Name == "" || h.Name == have.Name)
}

// normal returns the reservation in a form that is the same for all reservations with the same meaning.
func (h DHCPHost) normal() DHCPHost {
	h.MAC, h.IP = strings.ToLower(h.MAC), canonicalIP(h.IP)
	return h
}

var ips = list[IP]{
	tag: "ip", key: func(ip IP) string { return canonicalPrefix(ip.Address) }, read: readIP, write: writeIP,
}

// applyIPs makes the addresses of a network the wanted ones. Where the host gets another address in a subnet, or the
// subnet becomes larger, what isn't managed stays: the reservations are still in the subnet, except that of the host's
// new address.
func applyIPs(root *etree.Element, want []IP) {
	for _, w := range want {
		same := func(e *etree.Element) bool { return ips.key(ips.read(e)) == ips.key(w) }
		have := children(root, ips.tag)
		if slices.ContainsFunc(have, same) {
			continue
		}
		for _, e := range have {
			is := ips.read(e)
			stays := slices.ContainsFunc(want, func(other IP) bool { return ips.key(other) == ips.key(is) })
			if !stays && isWithin(is.Address, w.Address) {
				writePrefix(e, w.Address)
				dropReservationOf(e)
				break
			}
		}
	}
	ips.apply(root, want)
}

// dropReservationOf removes the reservation of the host's own address, which can't be given to anyone else.
func dropReservationOf(e *etree.Element) {
	dhcp := child(e, "dhcp")
	if dhcp == nil {
		return
	}
	for _, reservation := range children(dhcp, dhcpHosts.tag) {
		if dhcpHosts.read(reservation).IP == canonicalIP(attr(e, "address")) {
			dhcp.RemoveChild(reservation)
		}
	}
}

// isWithin reports whether the subnet of an address with a prefix length is that of another one, or a part of it.
func isWithin(address, other string) bool {
	a, err := netip.ParsePrefix(address)
	b, err2 := netip.ParsePrefix(other)
	return err == nil && err2 == nil && a.Bits() >= b.Bits() && b.Contains(a.Addr())
}

func readIP(e *etree.Element) IP {
	ip := IP{Address: attr(e, "address") + "/" + prefixOf(e)}
	dhcp := child(e, "dhcp")
	if dhcp == nil {
		return ip
	}
	found := DHCP{Ranges: ranges.all(dhcp), Hosts: dhcpHosts.all(dhcp)}
	if len(found.Ranges)+len(found.Hosts) > 0 {
		ip.DHCP = &found
	}
	return ip
}

// prefixOf returns the prefix length of an <ip> or <route>, which may have a netmask instead, or libvirt's default if
// it has neither.
func prefixOf(e *etree.Element) string {
	if prefix := attr(e, "prefix"); prefix != "" {
		return prefix
	}
	address, err := netip.ParseAddr(attr(e, "address"))
	mask, maskErr := netip.ParseAddr(attr(e, "netmask"))
	switch {
	case maskErr == nil:
		ones := 0
		for _, b := range mask.AsSlice() {
			for ; b&0x80 != 0; b <<= 1 {
				ones++
			}
		}
		return strconv.Itoa(ones)
	case err == nil && address.Is6():
		return "64"
	case err == nil && address.As4()[0] < 128:
		return "8"
	case err == nil && address.As4()[0] < 192:
		return "16"
	}
	return "24"
}

func writeIP(e *etree.Element, ip IP) {
	writePrefix(e, ip.Address)
	if ip.DHCP == nil {
		drop(e, "dhcp")
		return
	}
	dhcp := ensure(e, "dhcp")
	ranges.apply(dhcp, ip.DHCP.Ranges)
	if ip.DHCP.Hosts != nil {
		dhcpHosts.apply(dhcp, ip.DHCP.Hosts)
	}
}

// writePrefix writes an address with its prefix length. An element that already means the same stays as it is.
func writePrefix(e *etree.Element, text string) {
	address, prefix, _ := strings.Cut(text, "/")
	if attr(e, "address") == address && prefixOf(e) == prefix {
		return
	}
	family := ""
	if parsed, err := netip.ParseAddr(address); err == nil && parsed.Is6() {
		family = "ipv6"
	}
	set(e, "family", family)
	set(e, "address", address)
	set(e, "prefix", prefix)
	e.RemoveAttr("netmask")
}

// normal returns the address in a form that is the same for all addresses with the same meaning. Reservations that
// aren't managed are left out.
func (ip IP) normal(hosts bool) IP {
	n := IP{Address: canonicalPrefix(ip.Address)}
	if ip.DHCP == nil {
		return n
	}
	var dhcp DHCP
	for _, r := range ip.DHCP.Ranges {
		dhcp.Ranges = append(dhcp.Ranges, Range{Start: canonicalIP(r.Start), End: canonicalIP(r.End)})
	}
	dhcp.Ranges = inOrder(dhcp.Ranges, ranges.key)
	if hosts {
		for _, h := range ip.DHCP.Hosts {
			dhcp.Hosts = append(dhcp.Hosts, h.normal())
		}
		dhcp.Hosts = inOrder(dhcp.Hosts, dhcpHosts.key)
	}
	if len(dhcp.Ranges)+len(dhcp.Hosts) > 0 {
		n.DHCP = &dhcp
	}
	return n
}

// declaresDHCP reports whether libvirt has DHCP in the subnet by the block alone.
func (ip IP) declaresDHCP() bool { return ip.DHCP != nil && len(ip.DHCP.Ranges)+len(ip.DHCP.Hosts) > 0 }

// managesHosts reports whether the reservations are part of the block.
func (ip IP) managesHosts() bool { return ip.DHCP != nil && ip.DHCP.Hosts != nil }

var routes = list[Route]{
	tag: "route", key: func(r Route) string { return r.Destination + " " + r.Gateway },
	read: func(e *etree.Element) Route {
		return Route{
			Destination: attr(e, "address") + "/" + prefixOf(e), Gateway: attr(e, "gateway"), Metric: number(e, "metric"),
		}
	},
	write: func(e *etree.Element, r Route) {
		writePrefix(e, r.Destination)
		set(e, "gateway", r.Gateway)
		setNumber(e, "metric", r.Metric)
	},
}

func (r Route) normal() Route {
	r.Destination, r.Gateway = canonicalPrefix(r.Destination), canonicalIP(r.Gateway)
	return r
}

// canonicalIP returns the address in Go's notation; a text that isn't an address stays as it is.
func canonicalIP(text string) string {
	if address, err := netip.ParseAddr(text); err == nil {
		return address.String()
	}
	return text
}

// canonicalPrefix returns an address with a prefix length in its canonical form.
func canonicalPrefix(text string) string {
	if prefix, err := netip.ParsePrefix(text); err == nil {
		return prefix.String()
	}
	return text
}
