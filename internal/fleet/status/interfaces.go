package status

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
)

// Sources of what is known of an interface, as they are named in Interface.InfoSource.
const (
	SourceDomain     = "domain"
	SourceGuestAgent = "guest-agent"
	SourceLease      = "lease"
	SourceARP        = "arp"
)

// maxGuestOnly is how many interfaces that only the guest knows are listed. It is KubeVirt's number: a container host
// has hundreds.
const maxGuestOnly = 10

// DomainInterface is an interface in a definition.
type DomainInterface struct {
	// Name is the interface's key, Device the host's end of it ("" has none), Queues the number of its queues.
	Name, MAC, Device string
	LinkUp            bool
	Queues            int
}

// GuestInterface is an interface that the guest agent reported.
type GuestInterface struct {
	// Name is the guest's.
	Name, MAC string
	Addresses []netip.Addr
}

// Lease is an address that a source outside the guest knows for a MAC.
type Lease struct {
	MAC     string
	Address netip.Addr
}

// Sources are what each source knows of a VM's interfaces. A nil one couldn't be asked.
type Sources struct {
	Domain []DomainInterface
	Agent  []GuestInterface
	Leases []Lease
	ARP    []Lease
}

// Interface is what all sources together know of one interface.
type Interface struct {
	// Name is the key, "" for one that only the guest knows. GuestName is the guest's name for it, Device the host's end.
	Name, GuestName, Device, MAC string
	// Addresses has IPv4 before IPv6, and in each the addresses that lead further than the link first.
	Addresses []netip.Addr
	// InfoSource joins the sources that know the interface with ", ".
	InfoSource string
	// LinkUp and Queues are nil for an interface that only the guest knows.
	LinkUp *bool
	Queues *int
}

// Interfaces merges the sources by MAC as KubeVirt does: the definition's interfaces come first, each enriched by what
// the agent says; then those that only the agent knows, without the loopback. An agent that reported an interface knows
// its addresses: those of leases and ARP, which outlive the guest's use of them, count where it reported nothing.
func Interfaces(s Sources) []Interface {
	leases, arp := byMAC(s.Leases), byMAC(s.ARP)
	agent := map[string]GuestInterface{}
	for _, g := range s.Agent {
		if same, reported := agent[normalMAC(g.MAC)]; reported { // A bridge or a bond of the guest's has the MAC of its link.
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

// guestOnly are the interfaces that no definition has.
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

// isLoopback recognises the interface with which a guest talks to itself.
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
