package inventory

import (
	"context"
	"strings"
	"sync"
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

// seenDevices are the devices that a host last listed, by kind.
type seenDevices struct {
	sync.Mutex

	kinds map[string]deviceList
}

type deviceList struct {
	at    time.Time
	ids   map[string]bool
	known bool // the host lists devices
}

// LacksDevice reports whether the host lists devices of the kind, but not this one. It returns false if the host
// doesn't list them or can't be queried: the host may have the device nevertheless, and libvirt reports a missing one
// when the VM starts. The list is cached for viewAge, so that a plan of many VMs queries it once.
func (h *Host) LacksDevice(ctx context.Context, part domain.HostPart) bool {
	kind, isDevice := deviceKinds[part.Kind]
	if !isDevice || part.Kind == domain.VDPADevice && !strings.HasPrefix(part.ID, vdpaPath) {
		return false
	}

	h.devices.Lock()
	defer h.devices.Unlock()

	list, asked := h.devices.kinds[part.Kind]
	if !asked || time.Since(list.at) >= viewAge {
		found, err := h.Conn.NodeDevices(ctx, []string{kind.capability})

		others := found
		if err == nil && len(found) == 0 {
			others, err = h.Conn.NodeDevices(ctx, []string{commonCapability})
		}

		if err != nil {
			return false
		}

		list = deviceList{at: time.Now(), ids: make(map[string]bool, len(found)), known: len(others) > 0}
		for _, d := range found {
			list.ids[kind.id(d)] = true
		}

		if h.devices.kinds == nil {
			h.devices.kinds = make(map[string]deviceList)
		}

		h.devices.kinds[part.Kind] = list
	}

	return list.known && !list.ids[part.ID]
}
