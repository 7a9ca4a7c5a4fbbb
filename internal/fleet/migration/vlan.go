package migration

import (
	"cmp"
	"encoding/xml"
	"fmt"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// Port is what decides about the VLAN of an interface in addition to its network.
type Port struct {
	// Group is the port group that it names; "" for the network's default.
	Group string
	// VirtualPort is the type of its own virtual port; "" if the network decides.
	VirtualPort string
	// Tagged says that it has VLAN tags of its own.
	Tagged bool
}

// givesPort is what a network or one of its port groups gives to interfaces.
type givesPort struct {
	VLAN *struct {
		Tags []struct{} `xml:"tag"`
	} `xml:"vlan"`
	VirtualPort struct {
		Type string `xml:"type,attr"`
	} `xml:"virtualport"`
}

func (g givesPort) tagged() bool { return g.VLAN != nil && len(g.VLAN.Tags) > 0 }

// tagsAll reports whether the network itself gives every interface its VLAN.
func tagsAll(n libvirt.Network) bool {
	var is givesPort
	return xml.Unmarshal([]byte(n.XML), &is) == nil && is.tagged()
}

// RefusedVLAN returns why the host's libvirt starts no VM with an interface in the network: it gets VLAN tags, which
// libvirt can't give it there. It returns "" otherwise. libvirt accepts such a port group while the network is active.
func RefusedVLAN(info *libvirt.HostInfo, n libvirt.Network, port Port) (why, remedy string) {
	var is struct {
		givesPort
		Devices []struct{} `xml:"forward>interface"`
		Groups  []struct {
			givesPort
			Name    string `xml:"name,attr"`
			Default string `xml:"default,attr"`
		} `xml:"portgroup"`
	}
	if info.Driver != "QEMU" || xml.Unmarshal([]byte(n.XML), &is) != nil {
		return "", ""
	}
	from, tagged := fmt.Sprintf("network %q", n.Name), is.tagged()
	kind := port.VirtualPort
	for _, g := range is.Groups {
		if g.Name != port.Group && (port.Group != "" || g.Default != "yes") {
			continue
		}
		kind = cmp.Or(kind, g.VirtualPort.Type)
		if g.tagged() {
			from, tagged = fmt.Sprintf("port group %q of network %q", g.Name, n.Name), true
		}
	}
	needs := info.LibvirtVersion.NeedsForVLAN()
	switch {
	case info.LibvirtVersion.TagsVLAN(n.ForwardMode, len(is.Devices) > 0, cmp.Or(kind, is.VirtualPort.Type)):
	case port.Tagged:
		return fmt.Sprintf("network %q (%s) can't give an interface its VLAN: %s", n.Name, forwardMode(n), needs),
			"Remove vlan from the interface, or connect it to another network."
	case tagged:
		return fmt.Sprintf("%s (%s) gives the interface a VLAN with which no VM starts: %s", from, forwardMode(n), needs),
			"Remove vlan there, or connect the interface to another port group or network."
	}
	return "", ""
}
