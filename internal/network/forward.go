package network

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/beevik/etree"
)

// The ports that NAT uses by default. libvirt writes them into every definition.
const (
	natPortStart = 1024
	natPortEnd   = 65535
)

var forwardDevices = list[string]{
	tag: "interface", key: itself, read: func(e *etree.Element) string { return attr(e, "dev") },
	write: func(e *etree.Element, dev string) { set(e, "dev", dev) },
}

var pciAddresses = list[string]{tag: "address", key: itself, read: readPCI, write: writePCI}

func itself(s string) string { return s }

func readForward(root *etree.Element) *Forward {
	e := child(root, "forward")
	mode := attr(e, "mode")
	switch {
	case e == nil || mode == "none":
		return &Forward{Mode: ModeIsolated}
	case mode == "":
		mode = ModeNAT
	}
	f := &Forward{
		Mode: mode, Devices: forwardDevices.all(e), PhysicalFunction: attr(child(e, "pf"), "dev"),
		Managed: attr(e, "managed") == "yes",
	}
	if f.PhysicalFunction != "" {
		// They are libvirt's list of the device's virtual functions.
		f.Devices = nil
	} else {
		f.PCIAddresses = pciAddresses.all(e)
	}
	if dev := attr(e, "dev"); dev != "" && len(f.Devices) == 0 && f.PhysicalFunction == "" {
		f.Devices = []string{dev}
	}
	f.NAT = readNAT(child(e, "nat"))
	return f
}

func readNAT(e *etree.Element) *NAT {
	if e == nil {
		return nil
	}
	addresses, ports := child(e, "address"), child(e, "port")
	nat := NAT{
		Start: attr(addresses, "start"), End: attr(addresses, "end"), IPv6: attr(e, "ipv6") == "yes",
		PortStart: number(ports, "start"), PortEnd: number(ports, "end"),
	}
	if nat.PortStart == natPortStart && nat.PortEnd == natPortEnd {
		nat.PortStart, nat.PortEnd = 0, 0
	}
	if nat == (NAT{}) {
		return nil
	}
	return &nat
}

// ports returns the first and the last port.
func (n *NAT) ports() (first, last int) {
	return cmp.Or(n.PortStart, natPortStart), cmp.Or(n.PortEnd, natPortEnd)
}

func applyForward(root *etree.Element, want *Forward) {
	if !slices.Contains(BridgeModes, want.Mode) {
		// These are of the bridge that libvirt created. It refuses them for one of the host. A declared mtu is written again.
		drop(root, "mac")
		drop(root, "mtu")
		if bridge := child(root, "bridge"); bridge != nil {
			for _, key := range []string{"stp", "delay", "zone"} {
				bridge.RemoveAttr(key)
			}
		}
	}
	if want.Mode == ModeIsolated {
		drop(root, "forward")
		return
	}
	e := ensure(root, "forward")
	set(e, "mode", want.Mode)
	e.RemoveAttr("dev") // libvirt derives it from the first interface.
	setSwitch(e, "managed", want.Managed)
	forwardDevices.apply(e, want.Devices)
	drop(e, "pf")
	if want.PhysicalFunction != "" {
		set(e.CreateElement("pf"), "dev", want.PhysicalFunction)
	}
	pciAddresses.apply(e, want.PCIAddresses)
	if want.NAT == nil {
		drop(e, "nat")
		return
	}
	nat := ensure(e, "nat")
	setSwitch(nat, "ipv6", want.NAT.IPv6)
	drop(nat, "address")
	if want.NAT.Start != "" {
		addresses := nat.CreateElement("address")
		set(addresses, "start", want.NAT.Start)
		set(addresses, "end", want.NAT.End)
	}
	drop(nat, "port")
	if want.NAT.PortStart+want.NAT.PortEnd != 0 {
		ports := nat.CreateElement("port")
		first, last := want.NAT.ports()
		setNumber(ports, "start", first)
		setNumber(ports, "end", last)
	}
}

// pciAddress is an address in the notation of lspci.
var pciAddress = regexp.MustCompile(`^([0-9a-fA-F]{1,8}):([0-9a-fA-F]{1,2}):([0-9a-fA-F]{1,2})\.([0-7])$`)

func readPCI(e *etree.Element) string {
	part := func(key string, digits int) string {
		text := strings.ToLower(strings.TrimPrefix(attr(e, key), "0x"))
		return strings.Repeat("0", max(digits-len(text), 0)) + text
	}
	return fmt.Sprintf("%s:%s:%s.%s", part("domain", 4), part("bus", 2), part("slot", 2), part("function", 1))
}

func writePCI(e *etree.Element, address string) {
	set(e, "type", "pci")
	parts := pciAddress.FindStringSubmatch(address)
	if parts == nil {
		return
	}
	for i, key := range []string{"domain", "bus", "slot", "function"} {
		set(e, key, "0x"+parts[i+1])
	}
}
