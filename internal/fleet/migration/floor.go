package migration

import (
	"encoding/xml"
	"fmt"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// FloorLacks returns why a network can't guarantee the bandwidth of an interface, in kB per second, in addition to what
// it has guaranteed to others; "" if it can, or if that isn't known.
func FloorLacks(n libvirt.Network, floor, others uint64) string {
	var definition struct {
		Inbound *struct {
			Average uint64 `xml:"average,attr"`
			Peak    uint64 `xml:"peak,attr"`
		} `xml:"bandwidth>inbound"`
	}
	if floor == 0 || xml.Unmarshal([]byte(n.XML), &definition) != nil {
		return ""
	}
	limit, of := uint64(0), "average"
	if in := definition.Inbound; in != nil {
		limit = in.Average
		if in.Peak > 0 {
			limit, of = in.Peak, "peak"
		}
	}
	switch {
	case !IsHostLocal(n):
		return fmt.Sprintf("its network %q (%s) can't guarantee bandwidth", n.Name, forwardMode(n))
	case definition.Inbound == nil:
		return fmt.Sprintf("its network %q has no bandwidth.inbound, of which it could guarantee a part", n.Name)
	case floor+others > limit:
		return fmt.Sprintf("its network %q has %d kB/s (bandwidth.inbound.%s), of which it has guaranteed %d to other "+
			"interfaces, and this one asks for %d", n.Name, limit, of, others, floor)
	default:
		return ""
	}
}

// FloorRemedy is what to do if a network can't guarantee a bandwidth.
const FloorRemedy = "Give the network, with forward mode nat, route, open or isolated, a bandwidth.inbound that is large " +
	"enough. Or lower bandwidth.inbound.floor of the interface."
