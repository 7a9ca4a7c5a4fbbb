package network

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
)

// Problem is an error in one block.
type Problem struct {
	Block  string // the block's name in the configuration
	Reason string // a sentence: what is wrong and what is right
}

// Validate returns the errors in a Spec that can be found without a host.
func (s Spec) Validate() []Problem {
	return slices.Concat(s.validateForward(), s.validateNAT(), s.validateIPs(), s.validateDHCP(), s.validateRoutes(),
		s.validateDNS(), s.validateVLANs(), s.validateBandwidth())
}

func problem(block, format string, a ...any) Problem {
	return Problem{Block: block, Reason: fmt.Sprintf(format, a...)}
}

// Addressed are the modes in which a network needs an address.
var Addressed = []string{ModeNAT, ModeRoute, ModeOpen}

// bridged are the modes in which the network is one of the host's own: libvirt assigns no addresses on it.
var bridged = []string{ModeBridge, ModePrivate, ModeVEPA, ModePassthrough, ModeHostdev}

func (s Spec) validateForward() (problems []Problem) {
	if s.Forward == nil {
		return nil
	}
	f := s.Forward
	add := func(format string, a ...any) { problems = append(problems, problem("forward", format, a...)) }
	hasDevices := len(f.Devices) > 0
	switch f.Mode {
	case ModeBridge:
		if !hasDevices && s.Bridge == nil {
			add("With mode = %q set bridge to the host's bridge, or devices for macvtap.", f.Mode)
		}
	case ModePrivate, ModeVEPA, ModePassthrough:
		if !hasDevices {
			add("With mode = %q set devices to the host's network devices.", f.Mode)
		}
	case ModeHostdev:
		if (f.PhysicalFunction == "") == (len(f.PCIAddresses) == 0) {
			add("With mode = %q set either physical_function or pci_addresses.", f.Mode)
		}
	case ModeNAT, ModeRoute:
		if len(f.Devices) > 1 {
			add("With mode = %q libvirt accepts one device. Remove the others from devices.", f.Mode)
		}
	case ModeIsolated, ModeOpen:
		if hasDevices {
			add("With mode = %q the network has no devices of the host. Remove devices, or choose %q or %q.", f.Mode, ModeNAT,
				ModeRoute)
		}
	}
	if f.Mode != ModeHostdev && (f.PhysicalFunction != "" || len(f.PCIAddresses) > 0) {
		add("physical_function and pci_addresses are for mode = %q.", ModeHostdev)
	}
	for _, address := range f.PCIAddresses {
		if !pciAddress.MatchString(address) {
			add("%q isn't a PCI address such as \"0000:03:10.1\".", address)
		}
	}
	if f.NAT != nil && f.Mode != ModeNAT {
		add("nat is for mode = %q.", ModeNAT)
	}
	if slices.Contains(Addressed, f.Mode) && s.IPs != nil && len(s.IPs) == 0 {
		problems = append(problems, problem("ips", "With mode = %q the network needs an address. Set ips.", f.Mode))
	}
	if slices.Contains(bridged, f.Mode) && len(s.IPs) > 0 {
		problems = append(problems, problem("ips", "With mode = %q the network is the host's own, to which libvirt gives no "+
			"addresses. Remove ips.", f.Mode))
	}
	return problems
}

func (s Spec) validateIPs() (problems []Problem) {
	add := func(format string, a ...any) { problems = append(problems, problem("ips", format, a...)) }
	seen := map[netip.Addr]bool{}
	for _, ip := range s.IPs {
		prefix, err := netip.ParsePrefix(ip.Address)
		if seen[prefix.Addr()] && err == nil {
			add("The address %s has several entries.", prefix.Addr())
		}
		seen[prefix.Addr()] = true
		if err != nil {
			add("%q isn't an address with its prefix length, such as \"192.168.10.1/24\".", ip.Address)
			continue
		}
		if prefix.Addr() == prefix.Masked().Addr() && prefix.Bits() < prefix.Addr().BitLen()-1 {
			add("%s is the network's own address. Set the host's address in it, such as %s/%d.", ip.Address,
				prefix.Addr().Next(), prefix.Bits())
		}
		if ip.DHCP == nil {
			continue
		}
		problems = append(problems, validateRanges(prefix, ip.DHCP.Ranges)...)
		inside := func(text string) {
			if address, err := netip.ParseAddr(text); err != nil || !prefix.Contains(address) {
				add("%q isn't an address in %s.", text, prefix.Masked())
			}
		}
		for _, r := range ip.DHCP.Ranges {
			inside(r.Start)
			inside(r.End)
		}
		for _, h := range ip.DHCP.Hosts {
			inside(h.IP)
			if reason := h.Validate(); reason != "" {
				add("%s", reason)
			}
		}
	}
	return problems
}

// validateRanges refuses ranges that libvirt would refuse in the apply.
func validateRanges(subnet netip.Prefix, ranges []Range) (problems []Problem) {
	add := func(format string, a ...any) { problems = append(problems, problem("ips", format, a...)) }
	for _, r := range ranges {
		start, startErr := netip.ParseAddr(r.Start)
		end, endErr := netip.ParseAddr(r.End)
		if startErr != nil || endErr != nil {
			continue
		}
		if end.Less(start) {
			add("The range from %s to %s ends before it starts.", r.Start, r.End)
		}
		// libvirt compares all but the last two bytes, whatever the size.
		if block, err := start.Prefix(start.BitLen() - 16); err == nil && !block.Contains(end) {
			add("The range from %s to %s isn't in %s as a whole: libvirt accepts ranges within one /%d only.", r.Start, r.End,
				block, block.Bits())
		}
		switch is4 := subnet.Addr().Is4(); {
		case is4 && start == subnet.Masked().Addr():
			add("The range from %s to %s begins with the address of the network itself.", r.Start, r.End)
		case is4 && subnet.Contains(end) && !subnet.Contains(end.Next()):
			add("The range from %s to %s ends with the broadcast address of the network.", r.Start, r.End)
		case !is4 && subnet.Bits() < 64:
			add("With ranges, the prefix length of %s must be 64 at least, because dnsmasq starts with no other.", subnet)
		}
	}
	return problems
}

// validateDHCP refuses DHCP in several subnets of IPv4 or of IPv6.
func (s Spec) validateDHCP() (problems []Problem) {
	with := map[bool]int{}
	for _, ip := range s.IPs {
		prefix, err := netip.ParsePrefix(ip.Address)
		if err == nil && ip.declaresDHCP() {
			with[prefix.Addr().Is4()]++
		}
	}
	for _, family := range []struct {
		name string
		is4  bool
	}{{"IPv4", true}, {"IPv6", false}} {
		if with[family.is4] > 1 {
			problems = append(problems, problem("ips", "libvirt has DHCP in one subnet of %s. Remove ranges and hosts of dhcp "+
				"from the others.", family.name))
		}
	}
	return problems
}

// validateNAT refuses ranges of addresses and ports that end before they begin.
func (s Spec) validateNAT() (problems []Problem) {
	if s.Forward == nil || s.Forward.NAT == nil {
		return nil
	}
	nat := s.Forward.NAT
	if (nat.Start == "") != (nat.End == "") {
		problems = append(problems, problem("forward", "nat needs both start and end, or neither. For one address, set both "+
			"to it."))
	}
	start, startErr := netip.ParseAddr(nat.Start)
	if end, err := netip.ParseAddr(nat.End); err == nil && startErr == nil && end.Less(start) {
		problems = append(problems, problem("forward", "The addresses of nat from %s to %s end before they start.", nat.Start,
			nat.End))
	}
	if first, last := nat.ports(); last < first {
		problems = append(problems, problem("forward", "The ports of nat from %d to %d end before they start.", first, last))
	}
	return problems
}

// validateDNS refuses what libvirt would refuse in the apply or in a later change.
func (s Spec) validateDNS() (problems []Problem) {
	if s.DNS == nil {
		return nil
	}
	add := func(format string, a ...any) { problems = append(problems, problem("dns", format, a...)) }
	d, seen := s.DNS, map[string]bool{}
	if d.Enabled != nil && !*d.Enabled && len(d.Forwarders)+len(d.Hosts)+len(d.SRV)+len(d.TXT) > 0 {
		add("With enabled = false, libvirt accepts no forwarders, hosts, srv and txt. Remove them.")
	}
	for _, f := range d.Forwarders {
		if f == (Forwarder{}) {
			add("A forwarder needs address, domain, or both.")
		}
	}
	for _, h := range d.Hosts {
		if _, err := netip.ParseAddr(h.IP); err != nil {
			add("%q isn't an address.", h.IP)
		}
		if len(h.Names) == 0 {
			add("The entry of hosts for %s needs a name in names.", h.IP)
		}
		if ip := canonicalIP(h.IP); seen[ip] {
			add("The address %s has several entries in hosts. Put all its names in one.", h.IP)
		} else {
			seen[ip] = true
		}
	}
	for _, r := range d.SRV {
		if r.Target == "" && (r.Port != 0 || r.Priority != 0 || r.Weight != 0) {
			add("The SRV record of %q needs target: port, priority and weight are the target's.", r.Service)
		}
	}
	return problems
}

// Validate returns what is wrong with a reservation; "" if nothing is.
func (h DHCPHost) Validate() string {
	address, err := netip.ParseAddr(h.IP)
	switch {
	case err != nil:
		return fmt.Sprintf("%q isn't an address.", h.IP)
	case address.Is4() && h.MAC == "":
		return fmt.Sprintf("The reservation of %s needs mac.", h.IP)
	case address.Is6() && (h.MAC != "" || h.DUID == "" && h.Name == ""):
		return fmt.Sprintf("The reservation of %s needs duid: with IPv6 libvirt doesn't go by MAC addresses.", h.IP)
	}
	if h.MAC == "" {
		return ""
	}
	// Of the notations that net.ParseMAC accepts, libvirt accepts only this one.
	mac, err := net.ParseMAC(h.MAC)
	switch {
	case err != nil || len(mac) != 6 || strings.Count(h.MAC, ":") != 5:
		return fmt.Sprintf("%q isn't a MAC address such as \"52:54:00:12:34:56\".", h.MAC)
	case mac[0]&1 != 0:
		return fmt.Sprintf("%q is the MAC address of a group. Set that of one network card.", h.MAC)
	}
	return ""
}

func (s Spec) validateRoutes() (problems []Problem) {
	reaches := func(gateway netip.Addr) bool {
		return s.IPs == nil || slices.ContainsFunc(s.Addresses(), func(p netip.Prefix) bool { return p.Contains(gateway) })
	}
	for _, r := range s.Routes {
		prefix, err := netip.ParsePrefix(r.Destination)
		if err != nil || prefix.Masked() != prefix {
			problems = append(problems, problem("routes", "%q isn't a network with its prefix length, such as \"10.9.0.0/16\".",
				r.Destination))
		}
		if gateway, err := netip.ParseAddr(r.Gateway); err != nil || gateway.Is4() != prefix.Addr().Is4() {
			problems = append(problems, problem("routes", "The gateway %q isn't an address of the same family as %s.", r.Gateway,
				r.Destination))
		} else if !reaches(gateway) {
			problems = append(problems, problem("routes", "The gateway %q is in none of the subnets of ips.", r.Gateway))
		}
	}
	return problems
}

func (s Spec) validateVLANs() (problems []Problem) {
	check := func(block string, v *VLAN) {
		if v == nil {
			return
		}
		if len(v.Tags) == 0 {
			problems = append(problems, problem(block, "A VLAN needs at least one tag."))
		}
		for _, tag := range v.Tags {
			if tag < 0 || tag > 4095 {
				problems = append(problems, problem(block, "The VLAN tag %d isn't between 0 and 4095.", tag))
			}
		}
		if (v.NativeTag != 0) != (v.NativeMode != "") || v.NativeTag != 0 && !slices.Contains(v.Tags, v.NativeTag) {
			problems = append(problems, problem(block, "Set native_tag, one of tags, together with native_mode."))
		}
	}
	check("vlan", s.VLAN)
	defaults := 0
	for _, g := range listOf(s.PortGroups) {
		check("port_groups", g.VLAN)
		if g.Default {
			defaults++
		}
	}
	if defaults > 1 {
		problems = append(problems, problem("port_groups", "Only one port group can be the default."))
	}
	return problems
}

// validateBandwidth refuses what libvirt would refuse in the apply: each direction requires an average.
func (s Spec) validateBandwidth() (problems []Problem) {
	check := func(block, of string, b *Bandwidth) {
		if b == nil {
			return
		}
		for _, way := range []struct {
			name string
			rate *Rate
		}{{"inbound", b.Inbound}, {"outbound", b.Outbound}} {
			if way.rate != nil && way.rate.Average == 0 {
				problems = append(problems, problem(block, "bandwidth.%s%s requires average. Set it, or remove %s.", way.name,
					of, way.name))
			}
		}
	}
	check("bandwidth", "", s.Bandwidth)
	for _, g := range listOf(s.PortGroups) {
		check("port_groups", fmt.Sprintf(" of port group %q", g.name), g.Bandwidth)
	}
	return problems
}
