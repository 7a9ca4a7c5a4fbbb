package placement

import (
	"context"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// hostDeviceKinds are the kinds of devices that a VM can have of its host: how libvirt lists them, and what identifies
// one.
var hostDeviceKinds = map[string]struct {
	capability string
	id         func(libvirt.NodeDevice) string
}{
	domain.PCIDevice:  {"pci", func(d libvirt.NodeDevice) string { return d.Address }},
	domain.USBDevice:  {"usb_device", usbID},
	domain.MdevDevice: {"mdev", func(d libvirt.NodeDevice) string { return d.MdevUUID }},
}

// usbID is a USB device's vendor and product as they are declared: 1234:abcd.
func usbID(d libvirt.NodeDevice) string {
	if len(d.VendorID) < 2 || len(d.ProductID) < 2 {
		return ""
	}

	return d.VendorID[2:] + ":" + d.ProductID[2:]
}

// fitsHostDevices checks that the host has the devices that a VM is to have. A host that lists none of the kind may
// have it all the same.
func fitsHostDevices(ctx context.Context, a inventory.Reply, use domain.HostUse) []inventory.Problem {
	var problems []inventory.Problem

	listed := make(map[string]map[string]bool)

	for _, part := range use.Parts() {
		kind, isDevice := hostDeviceKinds[part.Kind]
		if !isDevice {
			continue
		}

		if listed[part.Kind] == nil {
			listed[part.Kind] = make(map[string]bool)

			devices, err := a.Host.Conn.NodeDevices(ctx, []string{kind.capability})
			if err != nil {
				continue // What it has is then for libvirt to say, when the VM starts.
			}

			for _, d := range devices {
				listed[part.Kind][kind.id(d)] = true
			}
		}

		if has := listed[part.Kind]; len(has) > 0 && !has[part.ID] {
			problems = append(problems, inventory.Problem{Attribute: use.Alone[part], Detail: "it has no " + part.String()})
		}
	}

	return problems
}
