package inventory

import (
	"context"
	"strings"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// deviceKinds are the kinds of host devices that a VM can use: libvirt's capability for listing them, and what
// identifies a device.
var deviceKinds = map[string]struct {
	capability string
	id         func(libvirt.NodeDevice) string
}{
	domain.PCIDevice:  {"pci", func(d libvirt.NodeDevice) string { return d.Address }},
	domain.USBDevice:  {"usb_device", usbID},
	domain.MdevDevice: {"mdev", func(d libvirt.NodeDevice) string { return d.MdevUUID }},
	domain.SCSIDevice: {"scsi", scsiID},
	domain.VDPADevice: {"vdpa", func(d libvirt.NodeDevice) string { return d.Device }},
}

// commonCapability is the capability of network interfaces, of which every host has one: if the host lists it, it lists
// devices, even if it has none of a kind.
const commonCapability = "net"

// vdpaPath is what the kernel names the character devices of vDPA devices. Another path can be a link to one.
const vdpaPath = "/dev/vhost-vdpa-"

// usbID returns a USB device's vendor and product as users declare them: 1234:abcd.
func usbID(d libvirt.NodeDevice) string {
	if len(d.VendorID) < 2 || len(d.ProductID) < 2 {
		return ""
	}

	return d.VendorID[2:] + ":" + d.ProductID[2:]
}

// scsiID returns a SCSI device's host, channel, target and LUN, which libvirt has in the device's name: scsi_0_0_1_0.
func scsiID(d libvirt.NodeDevice) string {
	return strings.ReplaceAll(strings.TrimPrefix(d.Name, "scsi_"), "_", ":")
}

// deviceList are the devices of one kind that a host listed.
type deviceList struct {
	at    time.Time
	ids   map[string]bool
	known bool // the host lists devices
	// byAddress are the ids of USB devices by bus and device.
	byAddress map[string]string
}

// LacksDevice reports whether the host lists devices of the kind, but not this one. It returns false if the host
// doesn't list them or can't be queried: the host may have the device nevertheless, and libvirt reports a missing one
// when the VM starts. The list is cached for viewAge, so that a plan of many VMs queries it once.
func (h *Host) LacksDevice(ctx context.Context, part domain.HostPart) bool {
	if part.Kind == domain.VDPADevice && !strings.HasPrefix(part.ID, vdpaPath) {
		return false
	}

	list := h.devicesOf(ctx, part.Kind)

	return list.known && !list.ids[part.ID]
}

// USBDevices returns the vendor and product (1234:abcd) of the host's USB devices, by bus and device (1:4). It is nil
// if the host doesn't list them.
func (h *Host) USBDevices(ctx context.Context) map[string]string {
	return h.devicesOf(ctx, domain.USBDevice).byAddress
}

// devicesOf returns the host's devices of a kind, and an empty list if it can't be queried.
func (h *Host) devicesOf(ctx context.Context, of string) deviceList {
	kind, isDevice := deviceKinds[of]
	if !isDevice {
		return deviceList{}
	}

	current := func(l deviceList) bool { return time.Since(l.at) < viewAge }

	list, err := h.devices.getIf(ctx, of, current, func(ctx context.Context) (deviceList, error) {
		found, err := h.Conn.NodeDevices(ctx, []string{kind.capability})

		others := found
		if err == nil && len(found) == 0 {
			others, err = h.Conn.NodeDevices(ctx, []string{commonCapability})
		}

		list := deviceList{
			at: time.Now(), ids: make(map[string]bool, len(found)), byAddress: make(map[string]string),
			known: len(others) > 0,
		}
		for _, d := range found {
			list.ids[kind.id(d)] = true
			if d.BusAddress != "" {
				list.byAddress[d.BusAddress] = kind.id(d)
			}
		}

		return list, err
	})
	if err != nil {
		return deviceList{}
	}

	return list
}
