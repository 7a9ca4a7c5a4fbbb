package evacuation

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
)

// Share is something that a host divides among its VMs.
type Share struct {
	// Kind is one of the kinds of shares. Of is the network, or the kind of slot.
	Kind, Of string
}

// The kinds of shares.
const (
	// Bandwidth is what a network can guarantee to interfaces, in kB per second.
	Bandwidth = "bandwidth"
	// NetworkDevices are the PCI devices that a network gives to interfaces.
	NetworkDevices = "network devices"
	// SecuritySlots are the processor's slots for keys of protected memory.
	SecuritySlots = "security slots"
)

// String returns the unit of the share, and what it is a share of.
func (s Share) String() string {
	switch s.Kind {
	case Bandwidth:
		return fmt.Sprintf("kB/s of network %q", s.Of)
	case NetworkDevices:
		return fmt.Sprintf("PCI devices of network %q", s.Of)
	default:
		return fmt.Sprintf("slots for guests with %s", s.Of)
	}
}

// SharesOf returns what a VM with that use needs of a host. A network that gives no devices has none to share.
func SharesOf(use domain.HostUse) map[Share]uint64 {
	shares := make(map[Share]uint64)
	for network, interfaces := range use.Networks {
		shares[Share{NetworkDevices, network}] = uint64(len(interfaces))
	}
	for network, floor := range use.Floors {
		shares[Share{Bandwidth, network}] = floor.Sum
	}
	if use.Slot != "" {
		shares[Share{SecuritySlots, string(use.Slot)}] = 1
	}
	return shares
}

// shortShare returns the first share of which the host has less left than a VM with that use needs; "" if there is
// none.
func (h Host) shortShare(use domain.HostUse) string {
	needs := SharesOf(use)
	for _, share := range slices.SortedFunc(maps.Keys(needs), func(a, b Share) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Of, b.Of))
	}) {
		if left, known := h.Shares[share]; known && left < needs[share] {
			return fmt.Sprintf("host %q has %d %s left of the %d that it needs", h.Name, left, share, needs[share])
		}
	}
	return ""
}
