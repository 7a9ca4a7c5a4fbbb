package migration

import (
	"encoding/xml"
	"fmt"
	"maps"
	"slices"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// Guarantee is the bandwidth, in kB per second, of which a network can guarantee parts to interfaces.
type Guarantee struct {
	Limit uint64
	// By is the attribute of the network that sets the limit.
	By string
}

// GuaranteeOf returns what a network can guarantee, and false if it can't guarantee bandwidth, or that isn't known.
func GuaranteeOf(n libvirt.Network) (Guarantee, bool) {
	var definition struct {
		Inbound *struct {
			Average uint64 `xml:"average,attr"`
			Peak    uint64 `xml:"peak,attr"`
		} `xml:"bandwidth>inbound"`
	}
	err := xml.Unmarshal([]byte(n.XML), &definition)
	switch in := definition.Inbound; {
	case err != nil || in == nil || !IsHostLocal(n):
		return Guarantee{}, false
	case in.Peak > 0:
		return Guarantee{in.Peak, "bandwidth.inbound.peak"}, true
	default:
		return Guarantee{in.Average, "bandwidth.inbound.average"}, true
	}
}

// FloorLacks returns why a network can't guarantee to the interfaces of a VM what they ask for; "" if it can, apart
// from what it has guaranteed to other VMs. The text begins with the network.
func FloorLacks(n libvirt.Network, floor domain.NetworkFloor) string {
	has, ok := GuaranteeOf(n)
	switch {
	case floor.Sum == 0 || n.Name == "":
		return ""
	case !IsHostLocal(n):
		return fmt.Sprintf("network %q (%s) can't guarantee bandwidth", n.Name, forwardMode(n))
	case !ok:
		return fmt.Sprintf("network %q has no bandwidth.inbound, of which it could guarantee a part", n.Name)
	case floor.Sum > has.Limit:
		return fmt.Sprintf("network %q has %d kB/s (%s), and the interfaces of the VM ask it for %d", n.Name,
			has.Limit, has.By, floor.Sum)
	default:
		return ""
	}
}

// checkFloors checks that the target's networks have the bandwidth that they have to guarantee to the running VM.
func (t preflight) checkFloors(f *blockerList, there map[string]libvirt.Network) {
	if !t.vm.Live() {
		return
	}
	floors := t.vm.Mobility.Floors
	for _, name := range slices.Sorted(maps.Keys(floors)) {
		if why := FloorLacks(there[name], floors[name]); why != "" {
			f.lacks(status.HostObject{Kind: status.NetworkBandwidth, Name: name}, NetworkNotAvailable,
				"interfaces."+floors[name].Interface, fmt.Sprintf("on host %q, %s", t.target.Name(), why), FloorRemedy)
		}
	}
}

// FloorRemedy is what to do if a network can't guarantee a bandwidth.
const FloorRemedy = "Give the network, with forward mode nat, route, open or isolated, a bandwidth.inbound that is " +
	"large enough. Or lower bandwidth.inbound.floor of the interface."
