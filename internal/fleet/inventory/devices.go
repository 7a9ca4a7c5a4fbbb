package inventory

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// deviceKinds are the kinds of devices that a VM can have of its host: how libvirt lists them, and what identifies one.
var deviceKinds = map[string]struct {
	capability string
	id         func(libvirt.NodeDevice) string
}{
	domain.PCIDevice:  {"pci", func(d libvirt.NodeDevice) string { return d.Address }},
	domain.USBDevice:  {"usb_device", usbID},
	domain.MdevDevice: {"mdev", func(d libvirt.NodeDevice) string { return d.MdevUUID }},
	domain.SCSIDevice: {"scsi", scsiID},
}

// usbID is a USB device's vendor and product as they are declared: 1234:abcd.
func usbID(d libvirt.NodeDevice) string {
	if len(d.VendorID) < 2 || len(d.ProductID) < 2 {
		return ""
	}

	return d.VendorID[2:] + ":" + d.ProductID[2:]
}

// scsiID is a SCSI device's host, channel, target and LUN, which libvirt has in its name: scsi_0_0_1_0.
func scsiID(d libvirt.NodeDevice) string {
	return strings.ReplaceAll(strings.TrimPrefix(d.Name, "scsi_"), "_", ":")
}

// seenDevices are the devices that a host listed last, by kind.
type seenDevices struct {
	sync.Mutex

	kinds map[string]deviceList
}

type deviceList struct {
	at  time.Time
	ids map[string]bool
}

// LacksDevice says that the host lists devices of the kind and that this one isn't among them. A host that lists none
// of the kind may have it all the same, and so may one that can't be asked: what it has is for libvirt to say, when the
// VM starts. A plan of many VMs asks once.
func (h *Host) LacksDevice(ctx context.Context, part domain.HostPart) bool {
	kind, isDevice := deviceKinds[part.Kind]
	if !isDevice {
		return false
	}

	h.devices.Lock()
	defer h.devices.Unlock()

	list, asked := h.devices.kinds[part.Kind]
	if !asked || time.Since(list.at) >= viewAge {
		found, err := h.Conn.NodeDevices(ctx, []string{kind.capability})
		if err != nil {
			return false
		}

		list = deviceList{at: time.Now(), ids: make(map[string]bool, len(found))}
		for _, d := range found {
			list.ids[kind.id(d)] = true
		}

		if h.devices.kinds == nil {
			h.devices.kinds = make(map[string]deviceList)
		}

		h.devices.kinds[part.Kind] = list
	}

	return len(list.ids) > 0 && !list.ids[part.ID]
}
