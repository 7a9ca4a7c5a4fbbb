package domain

import (
	"strconv"

	"github.com/beevik/etree"
)

// inboundFloor is the row of the bandwidth that a network guarantees.
const inboundFloor = "bandwidth.inbound.floor"

func bandwidthRows() []Attribute {
	var all []Attribute
	for _, way := range []string{"inbound", "outbound"} {
		for _, limit := range []struct{ name, doc string }{
			{"average", "kB (1000 bytes) per second on average. Required if `peak` or `burst` is set; `0`: no limit."},
			{"peak", "kB (1000 bytes) per second at most; `0`: no peak."},
			{"burst", "KiB that may be sent at the speed of `peak`; `0`: no burst."},
			{"floor", "kB (1000 bytes) per second that `network` guarantees; `0`: none. Requires a network with the mode " +
				"`nat`, `route`, `open` or `isolated`, and with `bandwidth.inbound`: the sum of all floors must fit into its " +
				"peak (default: average)."},
		} {
			row := Attribute{
				Name: "bandwidth." + way + "." + limit.name, Place: "bandwidth/" + way + "@" + limit.name, Kind: Count,
				Zero: true, Live: Update, Echo: true, Why: "It is set in the running VM.", Doc: limit.doc,
			}
			switch {
			case limit.name == "average":
				row.Read, row.Write = readAverage(way), writeAverage(way)
			case limit.name == "floor" && row.Name != inboundFloor:
				continue // libvirt guarantees no bandwidth from a guest.
			}
			all = append(all, row)
		}
	}
	return all
}

func readAverage(way string) func(*etree.Element) string {
	return func(e *etree.Element) string { return attr(child(e, "bandwidth", way), "average") }
}

// writeAverage sets the average. Without an average it also removes the limits that require one.
func writeAverage(way string) func(*etree.Element, string) error {
	return func(e *etree.Element, value string) error {
		if value != "" {
			setAttr(ensure(ensure(e, "bandwidth"), way), "average", value)
			return nil
		}
		limits := child(e, "bandwidth", way)
		if limits != nil {
			for _, limit := range []string{"average", "peak", "burst"} {
				setAttr(limits, limit, "")
			}
			dropEmpty(limits, e)
		}
		return nil
	}
}

// dropFloor removes the guarantee of a network, and returns whether there was one.
func dropFloor(e *etree.Element) bool {
	limits := child(e, "bandwidth", "inbound")
	if attr(limits, "floor") == "" {
		return false
	}
	setAttr(limits, "floor", "")
	dropEmpty(limits, e)
	return true
}

// Floor returns the bandwidth that the network of an interface has to guarantee, in kB per second.
func (i Interface) Floor() uint64 {
	floor, err := strconv.ParseUint(i.Values[inboundFloor], 10, 64)
	if err != nil || i.Network == "" {
		return 0
	}
	return floor
}

// NetworkFloor is the bandwidth that a network has to guarantee to interfaces of one VM.
type NetworkFloor struct {
	// Sum is in kB per second.
	Sum uint64
	// Interface is the key of the last of the interfaces.
	Interface string
}

// Path returns the attribute that asks for the bandwidth.
func (f NetworkFloor) Path() string { return "interfaces." + f.Interface + "." + inboundFloor }

// floors returns what networks have to guarantee to the VM, by network.
func (s Spec) floors() map[string]NetworkFloor {
	var all map[string]NetworkFloor
	for _, key := range sortedKeys(s.Interfaces) {
		nic := s.Interfaces[key]
		if nic.Floor() == 0 {
			continue
		}
		if all == nil {
			all = map[string]NetworkFloor{}
		}
		all[nic.Network] = NetworkFloor{all[nic.Network].Sum + nic.Floor(), key}
	}
	return all
}

// withoutFloor returns an interface without the guarantee of its network; nil if both before and after have none of the
// same network. libvirt connects an interface anew for each update, before it takes the old connection away: with both
// guarantees, the network may have given away more than it has.
func withoutFloor(before, after *etree.Element) *etree.Element {
	network := func(e *etree.Element) string { return attr(child(e, "source"), "network") }
	e := after.Copy()
	if network(before) != network(after) || !dropFloor(before.Copy()) || !dropFloor(e) {
		return nil
	}
	return e
}
