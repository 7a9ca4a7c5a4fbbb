package placement

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
)

// offer is what a host has for a VM, as far as it takes a call to learn that. The zero value says nothing.
type offer struct {
	// pages are the host's unused huge pages, see unusedPages.
	pages map[uint64]uint64
	// networks are the PCI devices that networks of the VM hand out, used ones included.
	networks map[string][]string
	// guarantees are the bandwidths of which networks guarantee parts to interfaces of the VM.
	guarantees map[string]migration.Guarantee
	// usb are the vendor and product of the host's USB devices, by bus and device.
	usb map[string]string
}

// offerTo returns what a host has for a VM. What the VM whose UUID is leaving has counts as unused.
func offerTo(ctx context.Context, a inventory.Reply, use domain.HostUse, leaving string) offer {
	has := offer{pages: unusedPages(ctx, a, use, leaving)}

	if len(use.Networks) > 0 {
		has.networks = a.Host.HandedOut(ctx, slices.Collect(maps.Keys(use.Networks)))
	}

	if len(use.Floors) > 0 {
		has.guarantees = guarantees(ctx, a.Host.Conn)
	}

	for part := range use.Alone {
		if part.Kind == domain.USBDevice || part.Kind == domain.USBAddress {
			has.usb = a.Host.USBDevices(ctx)
		}
	}

	return has
}

// idle reports whether a VM with that use needs nothing that another VM could have.
func (has offer) idle(use domain.HostUse) bool {
	return use.Empty() && len(has.networks) == 0 && len(use.Floors) == 0
}

// givenTo returns the part as another VM has it, "" if it doesn't. A definition names a USB device by its address, or
// by vendor and product.
func (has offer) givenTo(other domain.HostUse, part domain.HostPart) string {
	if theirs, both := other.PartOverlapping(part); both {
		return theirs.String()
	}

	for _, theirs := range other.Parts() {
		if by, is := has.sameUSB(part, theirs); is {
			return by
		}
	}

	return ""
}

// sameUSB reports whether one of the two parts is a USB device by its address, and the other the same by vendor and
// product.
func (has offer) sameUSB(one, other domain.HostPart) (text string, same bool) {
	if one.Kind == domain.USBAddress {
		one, other = other, one
	}

	if one.Kind != domain.USBDevice || other.Kind != domain.USBAddress || has.usb[other.ID] != one.ID {
		return "", false
	}

	return fmt.Sprintf("%s (%s)", one, other), true
}

// missingDevices returns the networks that have too few devices left for the VM's interfaces.
func (has offer) missingDevices(use domain.HostUse, others map[string]domain.HostUse) []shortage {
	var found []shortage

	for _, network := range slices.Sorted(maps.Keys(has.networks)) {
		devices := has.networks[network]
		taken, reason, holders := 0, migration.HostResourcesNotAvailable, []string(nil)

		for _, name := range slices.Sorted(maps.Keys(others)) {
			if n := handedTo(others[name], network, devices); n > 0 {
				taken, reason, holders = taken+n, migration.HostResourcesTaken, append(holders, name)
			}
		}

		keys := use.Networks[network]
		if taken+len(keys) <= len(devices) {
			continue
		}

		message := fmt.Sprintf("has %d left of the PCI devices of its network %q (%d), and the VM needs %d",
			max(0, len(devices)-taken), network, len(devices), len(keys))
		if len(holders) > 0 {
			message += ": others are given to VM " + inventory.QuoteList(holders)
		}

		found = append(found, shortage{Problem: domain.Problem{
			Path: "interfaces." + keys[len(keys)-1] + ".network", Message: message,
		}, reason: reason, remedy: fmt.Sprintf("Stop or move another VM before, or choose another host or network. Or "+
			"first add devices to network %q of the host, as a change of its own.", network)})
	}

	return found
}

// handedTo returns how many of the network's devices a VM has, or will have once it runs.
func handedTo(use domain.HostUse, network string, devices []string) int {
	n := len(use.Networks[network])

	for _, address := range devices {
		if use.Alone[domain.HostPart{Kind: domain.PCIDevice, ID: address}] != "" {
			n++
		}
	}

	return n
}
