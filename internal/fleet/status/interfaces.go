package status

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
)

// Sources of information about an interface, as Interface.InfoSource names them.
const (
	SourceDomain     = "domain"
	SourceGuestAgent = "guest-agent"
	SourceLease      = "lease"
	SourceARP        = "arp"
)

// maxGuestOnly is how many interfaces that only the guest knows are listed. It is KubeVirt's number: a guest that runs
// containers has hundreds.
const maxGuestOnly = 10

// DomainInterface is an interface in a definition.
type DomainInterface struct {
	// Name is the interface's key, Device its device on the host ("" for none), Queues the number of its queues.
	Name, MAC, Device string
	LinkUp            bool
	Queues            int
}

// GuestInterface is an interface that the guest agent reported.
type GuestInterface struct {
	// Name is the guest's name for the interface.
	Name, MAC string
	Addresses []netip.Addr
}

// Lease is an address that a source outside the guest reports for a MAC.
type Lease struct {
	MAC     string
	Address netip.Addr
}

// Sources are the interfaces of a VM by source. A source that couldn't be queried is nil.
type Sources struct {
	Domain []DomainInterface
	Agent  []GuestInterface
	Leases []Lease
	ARP    []Lease
}

// Interface combines what all sources report about one interface.
type Interface struct {
	// Name is the key, "" if only the guest knows the interface. GuestName is the guest's name for it, Device the host's
	// device.
	Name, GuestName, Device, MAC string
	// Addresses has IPv4 before IPv6, and in each the link-local addresses last.
	Addresses []netip.Addr
	// InfoSource lists the sources that report the interface, joined with ", ".
	InfoSource string
	// LinkUp and Queues are nil for an interface that only the guest knows.
	LinkUp *bool
	Queues *int
}

// Interfaces merges the sources by MAC as KubeVirt does. The definition's interfaces come first, each with what the
// agent reports about it; then the interfaces that only the agent reports, without the loopback. If the agent reported
// an interface, only the agent's addresses of it are used. Addresses from leases and ARP, which may outlive the guest's
// use of them, are used only for interfaces that the agent did not report.
func Interfaces(s Sources) []Interface {
	leases, arp := byMAC(s.Leases), byMAC(s.ARP)
	agent := map[string]GuestInterface{}
	for _, g := range s.Agent {
		if same, reported := agent[normalMAC(g.MAC)]; reported { // a bridge or a bond in the guest has the MAC of its link
			g.Name, g.Addresses = same.Name, slices.Concat(same.Addresses, g.Addresses)
		}
		agent[normalMAC(g.MAC)] = g
	}
	var merged []Interface
	known := map[string]bool{}
	for _, d := range s.Domain {
		mac := normalMAC(d.MAC)
		known[mac] = true
		i := Interface{Name: d.Name, Device: d.Device, MAC: mac, LinkUp: new(d.LinkUp), Queues: new(max(d.Queues, 1))}
		sources := []string{SourceDomain}
		i.Addresses = append(slices.Clone(leases[mac]), arp[mac]...)
		if g, reported := agent[mac]; reported && mac != "" {
			sources = append(sources, SourceGuestAgent)
			i.GuestName, i.Addresses = g.Name, slices.Clone(g.Addresses)
		}
		if len(leases[mac]) > 0 {
			sources = append(sources, SourceLease)
		}
		if len(arp[mac]) > 0 {
			sources = append(sources, SourceARP)
		}
		i.mergeAddresses(sources)
		merged = append(merged, i)
	}
	return append(merged, guestOnly(s.Agent, known)...)
}

// guestOnly returns the interfaces that no definition has.
func guestOnly(reported []GuestInterface, known map[string]bool) []Interface {
	var only []Interface
	for _, g := range reported {
		if known[normalMAC(g.MAC)] || g.isLoopback() || len(only) == maxGuestOnly {
			continue
		}
		i := Interface{GuestName: g.Name, MAC: normalMAC(g.MAC), Addresses: slices.Clone(g.Addresses)}
		i.mergeAddresses([]string{SourceGuestAgent})
		only = append(only, i)
	}
	return only
}

// isLoopback reports whether the interface is the guest's loopback.
func (g GuestInterface) isLoopback() bool {
	return g.Name == "lo" || len(g.Addresses) > 0 && !slices.ContainsFunc(g.Addresses, func(a netip.Addr) bool {
		return !a.IsLoopback()
	})
}

func (i *Interface) mergeAddresses(sources []string) {
	i.InfoSource = strings.Join(sources, ", ")
	slices.SortStableFunc(i.Addresses, func(a, b netip.Addr) int { return cmp.Compare(addressRank(a), addressRank(b)) })
	seen := map[netip.Addr]bool{}
	i.Addresses = slices.DeleteFunc(i.Addresses, func(a netip.Addr) bool {
		again := seen[a]
		seen[a] = true
		return again
	})
}

func addressRank(a netip.Addr) int {
	rank := 0
	if a.Is6() {
		rank = 2
	}
	if a.IsLinkLocalUnicast() {
		rank++
	}
	return rank
}

func byMAC(leases []Lease) map[string][]netip.Addr {
	all := map[string][]netip.Addr{}
	for _, l := range leases {
		all[normalMAC(l.MAC)] = append(all[normalMAC(l.MAC)], l.Address)
	}
	return all
}

func normalMAC(mac string) string { return strings.ToLower(mac) }
