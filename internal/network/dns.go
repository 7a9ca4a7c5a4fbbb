package network

import (
	"slices"
	"strconv"

	"github.com/beevik/etree"
)

var forwarders = list[Forwarder]{
	tag: "forwarder", key: func(f Forwarder) string { return f.Domain + " " + f.Address },
	read: func(e *etree.Element) Forwarder {
		return Forwarder{Address: attr(e, "addr"), Domain: attr(e, "domain")}
	},
	write: func(e *etree.Element, f Forwarder) { set(e, "addr", f.Address); set(e, "domain", f.Domain) },
}

var dnsHosts = list[DNSHost]{
	tag: "host", key: func(h DNSHost) string { return h.IP },
	read: func(e *etree.Element) DNSHost {
		h := DNSHost{IP: attr(e, "ip")}
		for _, name := range children(e, "hostname") {
			h.Names = append(h.Names, name.Text())
		}
		return h
	},
	write: func(e *etree.Element, h DNSHost) {
		set(e, "ip", h.IP)
		drop(e, "hostname")
		for _, name := range h.Names {
			e.CreateElement("hostname").SetText(name)
		}
	},
}

// SRV and TXT records can only be added and removed as a whole, so the whole record is the key.
var srvRecords = list[SRV]{
	tag: "srv", key: func(r SRV) string {
		return r.Service + " " + r.Protocol + " " + r.Domain + " " + r.Target + " " + strconv.Itoa(r.Port) + " " +
			strconv.Itoa(r.Priority) + " " + strconv.Itoa(r.Weight)
	},
	read: func(e *etree.Element) SRV {
		return SRV{
			Service: attr(e, "service"), Protocol: attr(e, "protocol"), Domain: attr(e, "domain"), Target: attr(e, "target"),
			Port: number(e, "port"), Priority: number(e, "priority"), Weight: number(e, "weight"),
		}
	},
	write: func(e *etree.Element, r SRV) {
		set(e, "service", r.Service)
		set(e, "protocol", r.Protocol)
		set(e, "domain", r.Domain)
		set(e, "target", r.Target)
		setNumber(e, "port", r.Port)
		setNumber(e, "priority", r.Priority)
		setNumber(e, "weight", r.Weight)
	},
}

var txtRecords = list[TXT]{
	tag: "txt", key: func(r TXT) string { return r.Name + "=" + r.Value },
	read:  func(e *etree.Element) TXT { return TXT{Name: attr(e, "name"), Value: attr(e, "value")} },
	write: func(e *etree.Element, r TXT) { set(e, "name", r.Name); set(e, "value", r.Value) },
}

func readDNS(root *etree.Element) *DNS {
	e := child(root, "dns")
	if e == nil {
		return nil
	}
	dns := &DNS{
		Forwarders: forwarders.all(e), Hosts: dnsHosts.all(e), SRV: srvRecords.all(e), TXT: txtRecords.all(e),
	}
	if attr(e, "enable") == "no" {
		dns.Enabled = new(false)
	}
	if attr(e, "forwardPlainNames") == "no" {
		dns.ForwardPlainNames = new(false)
	}
	return dns
}

func applyDNS(root *etree.Element, want *DNS) {
	e := ensure(root, "dns")
	no := func(on *bool) string {
		if on != nil && !*on {
			return "no"
		}
		return ""
	}
	set(e, "enable", no(want.Enabled))
	set(e, "forwardPlainNames", no(want.ForwardPlainNames))
	forwarders.apply(e, want.Forwarders)
	dnsHosts.apply(e, want.Hosts)
	srvRecords.apply(e, want.SRV)
	txtRecords.apply(e, want.TXT)
}

// normal returns the block in a form that is the same for all blocks with the same meaning.
func (d *DNS) normal() *DNS {
	if d == nil {
		d = &DNS{}
	}
	n := DNS{
		Enabled: d.Enabled, ForwardPlainNames: d.ForwardPlainNames, Forwarders: inOrder(d.Forwarders, forwarders.key),
		SRV: inOrder(d.SRV, srvRecords.key), TXT: inOrder(d.TXT, txtRecords.key),
	}
	if n.Enabled != nil && *n.Enabled {
		n.Enabled = nil
	}
	if n.ForwardPlainNames != nil && *n.ForwardPlainNames {
		n.ForwardPlainNames = nil
	}
	for _, h := range d.Hosts {
		n.Hosts = append(n.Hosts, DNSHost{IP: canonicalIP(h.IP), Names: inOrder(h.Names, itself)})
	}
	n.Hosts = inOrder(n.Hosts, dnsHosts.key)
	return &n
}

// inOrder returns a sorted copy; nil for an empty list.
func inOrder[T any](all []T, key func(T) string) []T {
	if len(all) == 0 {
		return nil
	}
	sorted := slices.Clone(all)
	slices.SortFunc(sorted, func(a, b T) int {
		switch ka, kb := key(a), key(b); {
		case ka < kb:
			return -1
		case ka > kb:
			return 1
		}
		return 0
	})
	return sorted
}
