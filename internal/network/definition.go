package network

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"

	"github.com/beevik/etree"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// dnsmasqNamespace is the namespace of options that libvirt passes to dnsmasq unchanged.
const dnsmasqNamespace = "http://libvirt.org/schemas/network/dnsmasq/1.0"

// definition is the XML of a network. What Spec doesn't model is preserved.
type definition struct{ document *etree.Document }

// parseDefinition parses the XML of a host.
func parseDefinition(xml string) (*definition, error) {
	document := etree.NewDocument()
	if err := document.ReadFromString(xml); err != nil {
		return nil, fmt.Errorf("%w: a network's definition can't be read: %w", libvirt.ErrInternal, err)
	}
	if document.Root() == nil || document.Root().Tag != "network" {
		return nil, fmt.Errorf("%w: a network's definition has another root", libvirt.ErrInternal)
	}
	return &definition{document: document}, nil
}

// newDefinition returns a new definition of a network of that name. If uuid is "", libvirt chooses.
func newDefinition(name, uuid string, spec Spec) *definition {
	document := etree.NewDocument()
	root := document.CreateElement("network")
	root.CreateElement("name").SetText(name)
	if uuid != "" {
		root.CreateElement("uuid").SetText(uuid)
	}
	d := &definition{document: document}
	d.Apply(spec)
	return d
}

// String returns the XML.
func (d *definition) String() string {
	text, _ := d.document.WriteToString() // Writing to memory doesn't fail.
	return text
}

// Spec reads all blocks. A block that the network doesn't have is nil.
func (d *definition) Spec() Spec {
	var s Spec
	for _, b := range blocks {
		b.read(d.document.Root(), &s)
	}
	return s
}

// Apply changes the blocks that want declares and that differ. All others stay as they are.
func (d *definition) Apply(want Spec) {
	have := d.Spec()
	for _, b := range blocks {
		if b.declared(want) && !b.same(have, want) {
			b.apply(d.document.Root(), want)
		}
	}
}

// Differences returns the names of the blocks that want declares and that differ in have.
func Differences(have, want Spec) []string {
	var names []string
	for _, b := range blocks {
		if b.declared(want) && !b.same(have, want) {
			names = append(names, b.name)
		}
	}
	return names
}

// Same reports whether a block of a host means the same as the wanted block.
func Same(block string, have, want Spec) bool {
	for _, of := range blocks {
		if of.name == block {
			return of.same(have, want)
		}
	}
	return false
}

// block is one part of a Spec.
type block struct {
	name     string // as users write it
	declared func(Spec) bool
	same     func(have, want Spec) bool
	read     func(*etree.Element, *Spec)
	apply    func(*etree.Element, Spec)
}

func equal[T any](a, b T) bool { return reflect.DeepEqual(a, b) }

// blocks are the parts of a network that users declare or leave out as a whole.
var blocks = []block{
	{
		"forward", func(s Spec) bool { return s.Forward != nil },
		func(a, b Spec) bool { return equal(a.Forward.normal(), b.Forward.normal()) },
		func(e *etree.Element, s *Spec) { s.Forward = readForward(e) },
		func(e *etree.Element, s Spec) { applyForward(e, s.Forward) },
	},
	{
		"bridge", func(s Spec) bool { return s.Bridge != nil },
		func(a, b Spec) bool { return equal(a.Bridge, b.Bridge) },
		func(e *etree.Element, s *Spec) {
			if name := attr(child(e, "bridge"), "name"); name != "" {
				s.Bridge = &name
			}
		},
		func(e *etree.Element, s Spec) { set(ensure(e, "bridge"), "name", *s.Bridge) },
	},
	{
		"mtu", func(s Spec) bool { return s.MTU != nil }, func(a, b Spec) bool { return equal(a.MTU, b.MTU) },
		func(e *etree.Element, s *Spec) {
			if size, err := strconv.Atoi(attr(child(e, "mtu"), "size")); err == nil {
				s.MTU = &size
			}
		},
		func(e *etree.Element, s Spec) { setNumber(ensure(e, "mtu"), "size", *s.MTU) },
	},
	{
		"domain", func(s Spec) bool { return s.Domain != nil }, func(a, b Spec) bool { return equal(a.Domain, b.Domain) },
		func(e *etree.Element, s *Spec) {
			if domain := child(e, "domain"); domain != nil {
				s.Domain = &Domain{Name: attr(domain, "name"), LocalOnly: attr(domain, "localOnly") == "yes"}
			}
		},
		func(e *etree.Element, s Spec) {
			domain := ensure(e, "domain")
			set(domain, "name", s.Domain.Name)
			setSwitch(domain, "localOnly", s.Domain.LocalOnly)
		},
	},
	{
		"dns", func(s Spec) bool { return s.DNS != nil },
		func(a, b Spec) bool { return equal(a.DNS.normal(), b.DNS.normal()) },
		func(e *etree.Element, s *Spec) { s.DNS = readDNS(e) },
		func(e *etree.Element, s Spec) { applyDNS(e, s.DNS) },
	},
	{
		"ips", func(s Spec) bool { return s.IPs != nil },
		func(a, b Spec) bool { return sameIPs(a.IPs, b.IPs) },
		func(e *etree.Element, s *Spec) { s.IPs = ips.all(e) },
		func(e *etree.Element, s Spec) { applyIPs(e, s.IPs) },
	},
	{
		"routes", func(s Spec) bool { return s.Routes != nil },
		func(a, b Spec) bool { return equal(normalRoutes(a.Routes), normalRoutes(b.Routes)) },
		func(e *etree.Element, s *Spec) { s.Routes = routes.all(e) },
		func(e *etree.Element, s Spec) { routes.apply(e, s.Routes) },
	},
	{
		"port_groups", func(s Spec) bool { return s.PortGroups != nil },
		func(a, b Spec) bool { return portGroups.compare(listOf(a.PortGroups), listOf(b.PortGroups)).empty() },
		func(e *etree.Element, s *Spec) { s.PortGroups = mapOf(portGroups.all(e)) },
		func(e *etree.Element, s Spec) { portGroups.apply(e, listOf(s.PortGroups)) },
	},
	{
		"vlan", func(s Spec) bool { return s.VLAN != nil },
		func(a, b Spec) bool { return equal(a.VLAN.normal(), b.VLAN.normal()) },
		func(e *etree.Element, s *Spec) { s.VLAN = readVLAN(e) },
		func(e *etree.Element, s Spec) { applyVLAN(e, s.VLAN) },
	},
	{
		"virtual_port", func(s Spec) bool { return s.VirtualPort != nil },
		func(a, b Spec) bool { return equal(a.VirtualPort.normal(), b.VirtualPort.normal()) },
		func(e *etree.Element, s *Spec) { s.VirtualPort = readVirtualPort(e) },
		func(e *etree.Element, s Spec) { applyVirtualPort(e, s.VirtualPort) },
	},
	{
		"bandwidth", func(s Spec) bool { return s.Bandwidth != nil },
		func(a, b Spec) bool { return equal(a.Bandwidth.normal(), b.Bandwidth.normal()) },
		func(e *etree.Element, s *Spec) { s.Bandwidth = readBandwidth(e) },
		func(e *etree.Element, s Spec) { applyBandwidth(e, s.Bandwidth) },
	},
	{
		"dnsmasq_options", func(s Spec) bool { return s.DnsmasqOptions != nil },
		func(a, b Spec) bool {
			return len(a.DnsmasqOptions)+len(b.DnsmasqOptions) == 0 || equal(a.DnsmasqOptions, b.DnsmasqOptions)
		},
		func(e *etree.Element, s *Spec) { s.DnsmasqOptions = readDnsmasq(e) },
		func(e *etree.Element, s Spec) { applyDnsmasq(e, s.DnsmasqOptions) },
	},
}

// normal returns the block in a form that is the same for all blocks with the same meaning.
func (f *Forward) normal() Forward {
	if f == nil {
		return Forward{Mode: ModeIsolated}
	}
	n := *f
	n.Devices = append([]string(nil), f.Devices...)
	n.PCIAddresses = nil
	for _, address := range f.PCIAddresses {
		e := etree.NewElement("address")
		writePCI(e, address)
		n.PCIAddresses = append(n.PCIAddresses, readPCI(e))
	}
	if f.NAT != nil {
		nat := *f.NAT
		nat.Start, nat.End = canonicalIP(nat.Start), canonicalIP(nat.End)
		nat.PortStart, nat.PortEnd = nat.ports()
		if nat.PortStart == natPortStart && nat.PortEnd == natPortEnd {
			nat.PortStart, nat.PortEnd = 0, 0
		}
		n.NAT = &nat
		if nat == (NAT{}) {
			n.NAT = nil
		}
	}
	return n
}

// sameIPs compares the addresses of a host with the wanted addresses. Reservations count only if the wanted block
// manages them.
func sameIPs(have, want []IP) bool {
	ignored := map[string]bool{}
	var a, b []IP
	for _, ip := range want {
		ignored[canonicalPrefix(ip.Address)] = ip.DHCP != nil && ip.DHCP.Hosts == nil
		b = append(b, ip.normal(true))
	}
	for _, ip := range have {
		a = append(a, ip.normal(!ignored[canonicalPrefix(ip.Address)]))
	}
	return equal(inOrder(a, ips.key), inOrder(b, ips.key))
}

func normalRoutes(all []Route) []Route {
	var normal []Route
	for _, r := range all {
		normal = append(normal, r.normal())
	}
	return inOrder(normal, routes.key)
}

func readDnsmasq(root *etree.Element) []string {
	var options []string
	for _, e := range dnsmasqElements(root, "options") {
		for _, option := range dnsmasqElements(e, "option") {
			options = append(options, attr(option, "value"))
		}
	}
	return options
}

func dnsmasqElements(parent *etree.Element, tag string) []*etree.Element {
	var found []*etree.Element
	for _, e := range parent.ChildElements() {
		if e.Tag == tag && e.NamespaceURI() == dnsmasqNamespace {
			found = append(found, e)
		}
	}
	return found
}

func applyDnsmasq(root *etree.Element, want []string) {
	for _, e := range dnsmasqElements(root, "options") {
		root.RemoveChild(e)
	}
	if len(want) == 0 {
		return
	}
	root.CreateAttr("xmlns:dnsmasq", dnsmasqNamespace)
	options := root.CreateElement("dnsmasq:options")
	for _, value := range want {
		options.CreateElement("dnsmasq:option").CreateAttr("value", value)
	}
}

// ErrRestartRequired says that a change takes effect only when the network is restarted.
var ErrRestartRequired = errors.New("the network must be restarted")
