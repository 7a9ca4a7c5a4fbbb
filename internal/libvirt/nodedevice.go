package libvirt

import (
	"cmp"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	golibvirt "libvirt.org/go/libvirt"
)

// NodeDevice is a device of a host. Values that don't apply or are unknown are "" or nil.
type NodeDevice struct {
	// Name is libvirt's name, such as "pci_0000_01_00_0", Parent the name of the device that contains the device.
	Name, Parent string
	// Capability is the kind of device, see NodeDeviceCapabilities.
	Capability string
	// Driver is the host's driver that currently uses the device.
	Driver string
	// Vendor and Product are names for people; the ids, such as "0x8086", are those of PCI and USB.
	VendorID, Vendor, ProductID, Product string
	// Address is the address of a PCI device ("0000:01:00.0"), or the MAC address of a network interface.
	Address string
	// BusAddress is the bus and the number of a USB device there ("1:4"). It has another one when it is plugged in again.
	BusAddress string
	// Device is the host's name for it: that of a network interface ("eth0"), or the path of a disk ("/dev/sda") or of
	// a vDPA device ("/dev/vhost-vdpa-0").
	Device string
	// Serial and SizeBytes are those of a disk.
	Serial    string
	SizeBytes *uint64
	// NUMACell is the cell that is nearest to the device.
	NUMACell *int
	// IOMMUGroup is the number of its IOMMU group: devices of one group are assigned to a guest together.
	IOMMUGroup *int
	// PhysicalFunction is the PCI address of the device that this device is an SR-IOV function of. VirtualFunctions are
	// the addresses of this device's own functions, MaxVirtualFunctions is how many it can have.
	PhysicalFunction    string
	VirtualFunctions    []string
	MaxVirtualFunctions *int
	// MdevType is the type of a mediated device, and MdevUUID its UUID.
	MdevType, MdevUUID string
	// MdevTypes says how many more mediated devices of each type can be created on a device.
	MdevTypes map[string]int
}

// nodeDeviceFlags list devices by capability.
var nodeDeviceFlags = map[string]golibvirt.ConnectListAllNodeDeviceFlags{
	"pci":        golibvirt.CONNECT_LIST_NODE_DEVICES_CAP_PCI_DEV,
	"usb_device": golibvirt.CONNECT_LIST_NODE_DEVICES_CAP_USB_DEV,
	"net":        golibvirt.CONNECT_LIST_NODE_DEVICES_CAP_NET,
	"storage":    golibvirt.CONNECT_LIST_NODE_DEVICES_CAP_STORAGE,
	"scsi_host":  golibvirt.CONNECT_LIST_NODE_DEVICES_CAP_SCSI_HOST,
	"scsi":       golibvirt.CONNECT_LIST_NODE_DEVICES_CAP_SCSI,
	"drm":        golibvirt.CONNECT_LIST_NODE_DEVICES_CAP_DRM,
	"mdev":       golibvirt.CONNECT_LIST_NODE_DEVICES_CAP_MDEV,
	"vdpa":       golibvirt.CONNECT_LIST_NODE_DEVICES_CAP_VDPA,
	"ccw":        golibvirt.CONNECT_LIST_NODE_DEVICES_CAP_CCW_DEV,
}

// NodeDeviceCapabilities returns the capabilities that NodeDevices accepts, sorted, by libvirt's names.
func NodeDeviceCapabilities() []string { return slices.Sorted(maps.Keys(nodeDeviceFlags)) }

// NodeDevices lists the host's devices that have one of the capabilities, or any accepted capability if none is given,
// sorted by name (virConnectListAllNodeDevices, virNodeDeviceGetXMLDesc). It takes one round trip and one more call per
// device, pipelined. It leaves out devices that are unplugged meanwhile. It returns ErrInvalid for an unknown
// capability.
func (h *Host) NodeDevices(ctx context.Context, capabilities []string) ([]NodeDevice, error) {
	if len(capabilities) == 0 {
		capabilities = NodeDeviceCapabilities()
	}
	s := readCall("listing the host's devices")
	var flags golibvirt.ConnectListAllNodeDeviceFlags
	for _, name := range capabilities {
		flag, known := nodeDeviceFlags[name]
		if !known {
			return nil, h.wrap(s, fmt.Errorf("%w: %q is no capability of a node device", ErrInvalid, name), false)
		}
		flags |= flag
	}
	return call(ctx, h, s, func(c *conn) ([]NodeDevice, error) { return c.nodeDevices(flags) })
}

func (c *conn) nodeDevices(flags golibvirt.ConnectListAllNodeDeviceFlags) ([]NodeDevice, error) {
	c.countCall("virConnectListAllNodeDevices")
	all, err := c.c.ListAllNodeDevices(flags)
	if err != nil {
		return nil, err
	}
	defer func() {
		for i := range all {
			_ = all[i].Free()
		}
	}()
	found := make([]*NodeDevice, len(all))
	calls := c.newPipeline()
	for i := range all {
		calls.Go(func() error {
			c.countCall("virNodeDeviceGetXMLDesc")
			document, err := all[i].GetXMLDesc(0)
			if errors.Is(err, golibvirt.ERR_NO_NODE_DEVICE) {
				return nil
			}
			if err == nil {
				found[i], err = parseNodeDevice(document)
			}
			return err
		})
	}
	if err := calls.Wait(); err != nil {
		return nil, err
	}
	devices := make([]NodeDevice, 0, len(found))
	for _, d := range found {
		if d != nil {
			devices = append(devices, *d)
		}
	}
	slices.SortFunc(devices, func(a, b NodeDevice) int { return strings.Compare(a.Name, b.Name) })
	return devices, nil
}

// pciAddress is an address in libvirt's documents: four numbers such as "0x0000".
type pciAddress struct {
	Domain   string `xml:"domain,attr"`
	Bus      string `xml:"bus,attr"`
	Slot     string `xml:"slot,attr"`
	Function string `xml:"function,attr"`
}

// String returns the address in the host's notation.
func (a pciAddress) String() string {
	plain := func(hex string) string { return strings.TrimPrefix(hex, "0x") }
	return fmt.Sprintf("%s:%s:%s.%s", plain(a.Domain), plain(a.Bus), plain(a.Slot), plain(a.Function))
}

// nodeDeviceXML is libvirt's XML of a node device, for all capabilities together.
type nodeDeviceXML struct {
	Name    string   `xml:"name"`
	Parent  string   `xml:"parent"`
	Drivers []string `xml:"driver>name"`
	Nodes   []struct {
		Type string `xml:"type,attr"`
		Path string `xml:",chardata"`
	} `xml:"devnode"`
	Capability struct {
		Type    string `xml:"type,attr"`
		Vendor  named  `xml:"vendor"`
		Product named  `xml:"product"`
		Model   string `xml:"model"`
		// PCI. The bus of a disk is a word.
		Domain   int    `xml:"domain"`
		Bus      string `xml:"bus"`
		Slot     int    `xml:"slot"`
		Function int    `xml:"function"`
		NUMA     *struct {
			Node int `xml:"node,attr"`
		} `xml:"numa"`
		// PCI and mediated devices.
		IOMMUGroup *struct {
			Number int `xml:"number,attr"`
		} `xml:"iommuGroup"`
		// USB.
		Device string `xml:"device"`
		// Network interfaces.
		Interface string `xml:"interface"`
		Address   string `xml:"address"`
		// Storage.
		Block  string  `xml:"block"`
		Serial string  `xml:"serial"`
		Size   *uint64 `xml:"size"`
		// Mediated devices.
		MdevType struct {
			ID string `xml:"id,attr"`
		} `xml:"type"`
		MdevUUID string `xml:"uuid"`
		// vDPA devices.
		CharDevice string `xml:"chardev"`
		// Further capabilities of the device.
		More []struct {
			Type      string       `xml:"type,attr"`
			MaxCount  *int         `xml:"maxCount,attr"`
			Addresses []pciAddress `xml:"address"`
			Types     []struct {
				ID        string `xml:"id,attr"`
				Available int    `xml:"availableInstances"`
			} `xml:"type"`
		} `xml:"capability"`
	} `xml:"capability"`
}

// named is an id, such as "0x8086", and a name for people.
type named struct {
	ID   string `xml:"id,attr"`
	Name string `xml:",chardata"`
}

func parseNodeDevice(document string) (*NodeDevice, error) {
	var device nodeDeviceXML
	if err := xml.Unmarshal([]byte(document), &device); err != nil {
		return nil, fmt.Errorf("%w: a node device's description can't be read: %w", ErrInternal, err)
	}
	c := device.Capability
	d := &NodeDevice{
		Name: device.Name, Parent: device.Parent, Capability: c.Type,
		VendorID: c.Vendor.ID, Vendor: strings.TrimSpace(c.Vendor.Name),
		ProductID: c.Product.ID, Product: strings.TrimSpace(c.Product.Name),
		Address: c.Address, Device: c.Interface, Serial: c.Serial, SizeBytes: c.Size,
		MdevType: c.MdevType.ID, MdevUUID: c.MdevUUID,
	}
	if len(device.Drivers) > 0 {
		d.Driver = device.Drivers[0]
	}
	if path := cmp.Or(c.Block, c.CharDevice); path != "" {
		d.Device = path
	}
	if d.Product == "" {
		d.Product = c.Model // A disk's.
	}
	for _, node := range device.Nodes {
		if node.Type == "dev" && d.Device == "" {
			d.Device = node.Path
		}
	}
	if bus, err := strconv.Atoi(c.Bus); err == nil && c.Type == "pci" {
		d.Address = fmt.Sprintf("%04x:%02x:%02x.%x", c.Domain, bus, c.Slot, c.Function)
	}
	if c.Type == "usb_device" && c.Bus != "" && c.Device != "" {
		d.BusAddress = c.Bus + ":" + c.Device
	}
	if c.NUMA != nil {
		d.NUMACell = &c.NUMA.Node
	}
	if c.IOMMUGroup != nil {
		d.IOMMUGroup = &c.IOMMUGroup.Number
	}
	d.addMore(device)
	return d, nil
}

// addMore adds further capabilities: virtual functions and mediated devices.
func (d *NodeDevice) addMore(device nodeDeviceXML) {
	for _, more := range device.Capability.More {
		switch more.Type {
		case "phys_function":
			if len(more.Addresses) > 0 {
				d.PhysicalFunction = more.Addresses[0].String()
			}
		case "virt_functions":
			d.MaxVirtualFunctions, d.VirtualFunctions = more.MaxCount, []string{}
			for _, a := range more.Addresses {
				d.VirtualFunctions = append(d.VirtualFunctions, a.String())
			}
		case "mdev_types":
			d.MdevTypes = make(map[string]int, len(more.Types))
			for _, t := range more.Types {
				d.MdevTypes[t.ID] = t.Available
			}
		}
	}
}
