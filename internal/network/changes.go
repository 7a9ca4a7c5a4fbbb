package network

import (
	"slices"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// noParent is the index for a section that is in the network itself.
const noParent = -1

// requiredChanges returns how an active network gets the wanted definition: the updates that apply at once, and the
// names of the blocks that require a restart.
func requiredChanges(have, want Spec) (updates []libvirt.NetworkUpdate, restart []string) {
	for _, name := range Differences(have, want) {
		live, possible := liveUpdates(name, have, want)
		if !possible {
			restart = append(restart, name)
			continue
		}
		updates = append(updates, live...)
	}
	return updates, restart
}

// liveUpdates returns the updates for one block of an active network, and whether they are possible.
func liveUpdates(name string, have, want Spec) (updates []libvirt.NetworkUpdate, possible bool) {
	switch name {
	case "forward":
		return forwardUpdates(have.Forward.normal(), want.Forward.normal())
	case "dns":
		return dnsUpdates(have.DNS.normal(), want.DNS.normal())
	case "ips":
		return ipUpdates(have.IPs, want.IPs)
	case "port_groups":
		return updatesOf(libvirt.NetworkPortGroup, noParent, portGroups,
			portGroups.compare(listOf(have.PortGroups), listOf(want.PortGroups)), true), true
	}
	return nil, false
}

// forwardUpdates returns the updates that add and remove the devices over which interfaces are distributed.
func forwardUpdates(have, want Forward) ([]libvirt.NetworkUpdate, bool) {
	pool := []string{ModeBridge, ModePrivate, ModeVEPA, ModePassthrough}
	rest := have
	rest.Devices = want.Devices
	if !equal(rest, want) || !slices.Contains(pool, want.Mode) || len(have.Devices) == 0 || len(want.Devices) == 0 {
		return nil, false
	}
	return updatesOf(libvirt.NetworkForwardInterface, noParent, forwardDevices,
		forwardDevices.compare(have.Devices, want.Devices), false), true
}

func dnsUpdates(have, want *DNS) ([]libvirt.NetworkUpdate, bool) {
	rest := *have
	rest.Hosts, rest.SRV, rest.TXT = want.Hosts, want.SRV, want.TXT
	if !equal(rest, *want) {
		return nil, false
	}
	return slices.Concat(
		dnsHostUpdates(dnsHosts.compare(have.Hosts, want.Hosts)),
		updatesOf(libvirt.NetworkDNSSRV, noParent, srvRecords, srvRecords.compare(have.SRV, want.SRV), false),
		updatesOf(libvirt.NetworkDNSTXT, noParent, txtRecords, txtRecords.compare(have.TXT, want.TXT), false),
	), true
}

// dnsHostUpdates returns the updates of names by their addresses. An update that removes a record names the address
// alone: libvirt also looks for records that have one of the names, and refuses if it finds several.
func dnsHostUpdates(d difference[DNSHost]) []libvirt.NetworkUpdate {
	var removed []DNSHost
	for _, h := range slices.Concat(d.removed, d.changed) {
		removed = append(removed, DNSHost{IP: h.IP})
	}
	return slices.Concat(
		updatesOf(libvirt.NetworkDNSHost, noParent, dnsHosts, difference[DNSHost]{removed: removed}, false),
		updatesOf(libvirt.NetworkDNSHost, noParent, dnsHosts, difference[DNSHost]{added: slices.Concat(d.changed, d.added)},
			false),
	)
}

// ipUpdates returns the updates of DHCP. The addresses themselves can't be changed.
func ipUpdates(have, want []IP) ([]libvirt.NetworkUpdate, bool) {
	if len(have) != len(want) {
		return nil, false
	}
	var updates []libvirt.NetworkUpdate
	for parent, h := range have {
		h = h.normal(true)
		at := slices.IndexFunc(want, func(w IP) bool { return canonicalPrefix(w.Address) == h.Address })
		if at < 0 {
			return nil, false
		}
		hosts := want[at].DHCP == nil || want[at].managesHosts()
		w := want[at].normal(true)
		var haveDHCP, wantDHCP DHCP
		if h.DHCP != nil {
			haveDHCP = *h.DHCP
		}
		if w.DHCP != nil {
			wantDHCP = *w.DHCP
		}
		rest, restDHCP := h, haveDHCP
		rest.DHCP = w.DHCP
		restDHCP.Ranges, restDHCP.Hosts = wantDHCP.Ranges, wantDHCP.Hosts
		if !equal(rest, w) || !equal(restDHCP, wantDHCP) {
			return nil, false
		}
		if hosts {
			updates = append(updates, updatesOf(libvirt.NetworkDHCPHost, parent, dhcpHosts,
				compareReservations(haveDHCP.Hosts, wantDHCP.Hosts), true)...)
		}
		updates = append(updates, updatesOf(libvirt.NetworkDHCPRange, parent, ranges,
			ranges.compare(haveDHCP.Ranges, wantDHCP.Ranges), false)...)
	}
	return updates, true
}

// compareReservations returns what turns have into want. Changed reservations that can't be modified are removed and
// added again: also those that have the address or the name of another one, which libvirt could modify instead.
func compareReservations(have, want []DHCPHost) difference[DHCPHost] {
	d := dhcpHosts.compare(have, want)
	d.changed = slices.DeleteFunc(d.changed, func(changed DHCPHost) bool {
		at := slices.IndexFunc(have, func(h DHCPHost) bool { return h.key() == changed.key() })
		another := slices.ContainsFunc(have, func(h DHCPHost) bool {
			return h.key() != changed.key() && (h.IP == changed.IP || h.Name != "" && h.Name == changed.Name)
		})
		if changed.modifies(have[at]) && !another {
			return false
		}
		d.removed, d.added = append(d.removed, have[at]), append(d.added, changed)
		return true
	})
	return d
}

// updatesOf returns the updates for one kind of element, removals before additions. An element that can't be modified
// is removed and added again.
func updatesOf[T any](
	section libvirt.NetworkSection, parent int, l list[T], d difference[T], modifiable bool,
) []libvirt.NetworkUpdate {
	var updates []libvirt.NetworkUpdate
	add := func(command libvirt.NetworkCommand, elements []T) {
		for _, value := range elements {
			updates = append(updates, libvirt.NetworkUpdate{
				Command: command, Section: section, Parent: parent, XML: l.element(value),
			})
		}
	}
	add(libvirt.NetworkDelete, d.removed)
	if modifiable {
		add(libvirt.NetworkModify, d.changed)
	} else {
		add(libvirt.NetworkDelete, d.changed)
		add(libvirt.NetworkAdd, d.changed)
	}
	add(libvirt.NetworkAdd, d.added)
	return updates
}
