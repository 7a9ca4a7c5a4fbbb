package domain

import (
	"strconv"

	"github.com/beevik/etree"
)

// Serial ports that are connected to another program over the network: by TCP, as a server or a client, and by UDP.

// serialKinds are what a serial port can be connected to on the host.
var serialKinds = []string{"pty", "file", "unix", "null", "dev", "tcp", "udp"}

// onNetwork reports whether a serial port of that type has addresses.
func onNetwork(kind string) bool { return kind == "tcp" || kind == "udp" }

// writeSerialType sets what a port is connected to. Addresses belong to the old type.
func writeSerialType(e *etree.Element, value string) error {
	if onNetwork(attr(e, "type")) || onNetwork(value) {
		dropChildren(e, "source", "protocol")
	}
	setAttr(e, "type", value)
	return nil
}

// networkSource returns the <source> with an address: that of TCP, or that of UDP in one direction. It returns nil if
// there is none.
func networkSource(e *etree.Element, mode string) *etree.Element {
	for _, source := range children(e, "source") {
		if kind := attr(e, "type"); kind == "tcp" && mode == "connect" || kind == "udp" && attr(source, "mode") == mode {
			return source
		}
	}
	return nil
}

// networkAddress returns an attribute that is a part of an address. TCP has one address, which counts as that of the
// mode connect here, whatever its mode is.
func networkAddress(name, key, mode, doc string) Attribute {
	return Attribute{
		Name: name, Follows: "type", Why: serialWhy, Doc: doc,
		Read: func(e *etree.Element) string { return attr(networkSource(e, mode), key) },
		Write: func(e *etree.Element, value string) error {
			source := networkSource(e, mode)
			if source == nil && value != "" && onNetwork(attr(e, "type")) {
				source = add(e, "source", "mode", mode)
			}
			if source == nil {
				return nil
			}
			if setAttr(source, key, value); mode == "bind" && attr(source, "host")+attr(source, "service") == "" {
				drop(source)
			}
			return nil
		},
	}
}

// serialAddresses are the attributes of a serial port on the network.
var serialAddresses = []Attribute{
	{
		Name: "mode", Values: []string{"connect", "bind"}, Follows: "type", Filled: true, Why: serialWhy,
		DefaultDoc: "`connect`", Doc: "Whether a port of the type `tcp` connects to a server, or is one.",
		Read: func(e *etree.Element) string {
			if attr(e, "type") != "tcp" {
				return ""
			}
			return attr(child(e, "source"), "mode")
		},
		Write: func(e *etree.Element, value string) error {
			if attr(e, "type") == "tcp" && value != "" {
				setAttr(ensure(e, "source"), "mode", value)
				dropChildren(child(e, "source"), "reconnect")
			}
			return nil
		},
	},
	networkAddress("host", "host", "connect", "Address, for the types `tcp` and `udp`: of the other side, or where a "+
		"server listens. Each host of the VM must have an address that a server listens on, or `0.0.0.0` for all."),
	networkAddress("service", "service", "connect", "Port, for the types `tcp` and `udp`."),
	networkAddress("bind_host", "host", "bind", "Address where a port of the type `udp` receives."),
	networkAddress("bind_service", "service", "bind", "Port where a port of the type `udp` receives."),
	{
		Name: "protocol", Place: "protocol@type", Values: []string{"raw", "telnet", "telnets", "tls"}, Follows: "type",
		Filled: true, Why: serialWhy, DefaultDoc: "`raw`", Doc: "Protocol of the type `tcp`.",
	},
	{
		Name: "reconnect", Kind: Count, Follows: "mode", Why: serialWhy,
		Doc: "Seconds after which a port of the type `tcp` connects again to a server that ended. Without it, the VM " +
			"doesn't start if the server is down.",
		Read: func(e *etree.Element) string {
			reconnect := child(e, "source", "reconnect")
			if attr(reconnect, "enabled") != "yes" {
				return ""
			}
			return attr(reconnect, "timeout")
		},
		Write: func(e *etree.Element, value string) error {
			source := child(e, "source")
			if dropChildren(source, "reconnect"); source != nil && value != "" {
				add(source, "reconnect", "enabled", "yes", "timeout", value)
			}
			return nil
		},
	},
}

// checkSerialAddress checks the attributes of a serial port on the network.
func checkSerialAddress(value func(string) string) (attribute, problem string) {
	kind := value("type")
	if onNetwork(kind) {
		switch {
		case value("host") == "":
			return "host", "The type " + kind + " needs one."
		case value("service") == "":
			return "service", "The type " + kind + " needs one."
		}
	}
	for _, name := range []string{"host", "service"} {
		if !onNetwork(kind) && value(name) != "" {
			return name, "Only the types tcp and udp have one."
		}
	}
	for _, name := range []string{"bind_host", "bind_service"} {
		if kind != "udp" && value(name) != "" {
			return name, `Only the type "udp" has one.`
		}
	}
	for _, name := range []string{"mode", "protocol", "reconnect"} {
		if kind != "tcp" && value(name) != "" {
			return name, `Only the type "tcp" has one.`
		}
	}
	switch {
	case value("bind_host") != "" && value("bind_service") == "":
		return "bind_service", "It goes with bind_host."
	case value("mode") == "bind" && value("reconnect") != "":
		return "reconnect", `A server has none. It needs mode = "connect".`
	case value("reconnect") == "0":
		return "reconnect", "It is 1 or more."
	default:
		return "", ""
	}
}

// maxISASerials is the number of serial ports that a PC has.
const maxISASerials = 4

// checkSerials checks which ports are those of the PC. libvirt numbers all ports, and its number of one of these must
// be below 4: it defines others once, and neither starts them nor defines them again.
func checkSerials(s Spec, c *checker) {
	pc := s.Arch == "x86_64" || s.Arch == "i686"
	for i, key := range sortedKeys(s.Serials) {
		kind := s.Serials[key]["target_type"]
		c.require(i < maxISASerials || kind != "isa-serial" && (kind != "" || !pc), join("devices.serials", key)+
			".target_type", "Only the first "+strconv.Itoa(maxISASerials)+" ports, by their keys, can be isa-serial. Give it "+
			`target_type = "pci-serial".`)
	}
}

// listens adds a port of the host that QEMU listens on. A service by its name isn't looked up.
func (u HostUse) listens(kind, address, service, attribute string) {
	if port, err := strconv.Atoi(service); err != nil || port <= 0 {
		return
	}
	if address == "0.0.0.0" || address == "::" {
		address = ""
	}
	u.Alone[HostPart{kind, forward{address: address, ranges: []portRange{{start: service}}}.String()}] = attribute
}

// addSerials adds the serial devices and the ports of the host that serial ports take.
func (u HostUse) addSerials(serials map[string]Row) {
	for key, row := range serials {
		at := serialFamily.Path + "." + key
		switch kind := row["type"]; {
		case kind == "dev":
			u.Alone[HostPart{SerialDevice, row["path"]}] = at + ".path"
		case kind == "tcp" && row["mode"] == "bind":
			u.listens(TCPPort, row["host"], row["service"], at+".service")
		case kind == "udp":
			u.listens(UDPPort, row["bind_host"], row["bind_service"], at+".bind_service")
		}
	}
}

// openedBySerials returns the serial devices of the host that the VM opens, with the attributes that declare them.
func (d *Definition) openedBySerials() []MobilePath {
	var all []MobilePath
	for _, have := range d.keyed(serialFamily.kind(), d.recordedNames()) {
		if path := textAt(have.element, "source@path"); attr(have.element, "type") == "dev" {
			all = append(all, MobilePath{join(serialFamily.Path, have.key) + ".path", "serial device", path})
		}
	}
	return all
}
