package libvirt

import "fmt"

// TagsVLAN reports whether libvirt of that version starts a VM whose interface gets VLAN tags. mode is the forward mode
// of its network; "bridge" if it is connected to a bridge by itself. devices says that a network in that mode
// distributes its interfaces over devices of the host. virtualPort is the type of the interface's virtual port. libvirt
// accepts the definitions of most of those that it doesn't start.
func (v Version) TagsVLAN(mode string, devices bool, virtualPort string) bool {
	switch {
	case mode == "hostdev" || mode == "passthrough":
		return true
	case mode != "bridge" || devices:
		return false
	}
	return virtualPort == "openvswitch" || v.AtLeast(11, 0, 0)
}

// NeedsForVLAN says what an interface with VLAN tags needs, and which version the host has.
func (v Version) NeedsForVLAN() string {
	return fmt.Sprintf("VLAN tags need an Open vSwitch (virtual_port), a network with mode hostdev or passthrough, or a "+
		"bridge of the host and libvirt 11.0.0; it has %s", v)
}
