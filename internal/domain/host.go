package domain

import (
	"net/netip"
	"regexp"
	"strconv"
	"strings"
)

// hostPort is the address of a server of a network disk.
type hostPort struct {
	// name is a host's name or address. port is "" for the protocol's default port.
	name, port string
	// socket is the path of a Unix socket; if it is set, name and port aren't.
	socket string
}

// unixPrefix is the prefix of a socket in a list of hosts.
const unixPrefix = "unix:"

// parseHost parses host, host:port, an IPv6 address (bare, or in brackets with a port), or unix:path.
func parseHost(s string) (hostPort, bool) {
	if socket, ok := strings.CutPrefix(s, unixPrefix); ok {
		return hostPort{socket: socket}, socket != ""
	}
	if _, err := netip.ParseAddr(s); err == nil {
		return hostPort{name: s}, true
	}
	name, port := s, ""
	if at := strings.LastIndexByte(s, ':'); at > strings.LastIndexByte(s, ']') {
		name, port = s[:at], s[at+1:]
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return hostPort{}, false
		}
	}
	if address, ok := strings.CutPrefix(name, "["); ok {
		name = strings.TrimSuffix(address, "]")
		if _, err := netip.ParseAddr(name); err != nil {
			return hostPort{}, false
		}
	} else if strings.ContainsAny(name, ":/] ") {
		return hostPort{}, false
	}
	return hostPort{name: name, port: port}, name != ""
}

// String is the inverse of parseHost.
func (h hostPort) String() string {
	switch {
	case h.socket != "":
		return unixPrefix + h.socket
	case h.port == "":
		return h.name
	case strings.Contains(h.name, ":"):
		return "[" + h.name + "]:" + h.port
	default:
		return h.name + ":" + h.port
	}
}

// withPort sets the protocol's default port if there is no port.
func (h hostPort) withPort(protocol string) hostPort {
	if h.socket == "" && (h.port == "" || h.port == "0") {
		h.port = defaultPorts[protocol]
	}
	return h
}

// macPattern matches the only notation of a MAC that both libvirt and this package accept.
var macPattern = regexp.MustCompile(`^[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5}$`)

// isGroupMAC reports whether an address is a multicast address: the last bit of its first byte is set.
func isGroupMAC(mac string) bool {
	return strings.ContainsAny(mac[1:2], "13579bBdDfF")
}
