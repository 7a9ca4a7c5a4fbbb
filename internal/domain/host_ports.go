package domain

import (
	"cmp"
	"strconv"
)

// The kinds of what a host's programs share in other ways than devices. The ID of a port is [address][%device]/ports,
// see forward.String: "2022" or "192.0.2.7/5000-5020".
const (
	TCPPort     = "TCP port"
	UDPPort     = "UDP port"
	InputDevice = "input device"
	// SerialDevice is a serial port of the host.
	SerialDevice = "serial device"
)

// addPorts adds the ports that passt takes from the host for an interface. Of all ports, it takes those that are free.
func (u HostUse) addPorts(key string, nic Interface) {
	for kind, name := range map[string]string{TCPPort: "backend.tcp_ports", UDPPort: "backend.udp_ports"} {
		for _, text := range ParseWords(nic.Values[name]) {
			f, err := parseForward(text)
			if err != nil {
				continue // validate reports it.
			}
			for _, r := range f.taken() {
				part := forward{address: f.address, device: f.device, ranges: []portRange{r}}
				u.Alone[HostPart{kind, part.String()}] = "interfaces." + key + "." + name
			}
		}
	}
}

// addInputs adds the input devices of the host.
func (u HostUse) addInputs(inputs map[string]Row) {
	for key, row := range inputs {
		if device := row["device"]; device != "" {
			u.Alone[HostPart{InputDevice, device}] = inputFamily.Path + "." + key + ".device"
		}
	}
}

// taken returns the ranges of the host that are taken, without those that are excluded.
func (f forward) taken() []portRange {
	var all []portRange
	for _, r := range f.ranges {
		if r.exclude {
			continue
		}
		from, to := r.bounds()
		for port := from; port <= to; port++ {
			if f.excludes(port) {
				continue
			}
			end := port
			for end < to && !f.excludes(end+1) {
				end++
			}
			taken := portRange{start: strconv.Itoa(port)}
			if end > port {
				taken.end = strconv.Itoa(end)
			}
			all, port = append(all, taken), end
		}
	}
	return all
}

func (f forward) excludes(port int) bool {
	for _, r := range f.ranges {
		if from, to := r.bounds(); r.exclude && from <= port && port <= to {
			return true
		}
	}
	return false
}

// bounds returns the first and the last port of the host.
func (r portRange) bounds() (from, to int) {
	from, _ = strconv.Atoi(r.start)
	to, _ = strconv.Atoi(cmp.Or(r.end, r.start))
	return from, to
}

// Overlaps reports whether a host can't give both parts to two VMs: they are the same, or have a port in common. A port
// on all addresses or devices includes the port on each of them.
func (p HostPart) Overlaps(other HostPart) bool {
	if p == other || p.Kind != other.Kind || p.Kind != TCPPort && p.Kind != UDPPort {
		return p == other
	}
	one, err := parseForward(p.ID)
	two, wrong := parseForward(other.ID)
	if err != nil || wrong != nil || !overlap(one.device, two.device) || !overlap(one.address, two.address) {
		return false
	}
	from, to := one.ranges[0].bounds()
	first, last := two.ranges[0].bounds()
	return from <= last && first <= to
}

// overlap reports whether two names are the same, or one is that of everything.
func overlap(one, other string) bool { return one == "" || other == "" || one == other }

// PartOverlapping returns the part of the VM that overlaps another, and false if none does.
func (u HostUse) PartOverlapping(part HostPart) (HostPart, bool) {
	if u.Alone[part] != "" {
		return part, true
	}
	for _, mine := range u.Parts() {
		if mine.Overlaps(part) {
			return mine, true
		}
	}
	return HostPart{}, false
}
