package host

import (
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// nodeDevice is a device of a host.
type nodeDevice struct {
	Capability          string           `tfsdk:"capability"`
	Parent              *string          `tfsdk:"parent"`
	Driver              *string          `tfsdk:"driver"`
	VendorID            *string          `tfsdk:"vendor_id"`
	Vendor              *string          `tfsdk:"vendor"`
	ProductID           *string          `tfsdk:"product_id"`
	Product             *string          `tfsdk:"product"`
	Address             *string          `tfsdk:"address"`
	Device              *string          `tfsdk:"device"`
	Serial              *string          `tfsdk:"serial"`
	SizeBytes           *int64           `tfsdk:"size_bytes"`
	NUMACell            *int64           `tfsdk:"numa_cell"`
	IOMMUGroup          *int64           `tfsdk:"iommu_group"`
	PhysicalFunction    *string          `tfsdk:"physical_function"`
	VirtualFunctions    []string         `tfsdk:"virtual_functions"`
	MaxVirtualFunctions *int64           `tfsdk:"max_virtual_functions"`
	MdevType            *string          `tfsdk:"mdev_type"`
	MdevUUID            *string          `tfsdk:"mdev_uuid"`
	MdevTypes           map[string]int64 `tfsdk:"mdev_types"`
}

func nodeDevicesAttribute() schema.MapNestedAttribute {
	return schema.MapNestedAttribute{
		Computed: true,
		MarkdownDescription: "Devices of the host by libvirt's names, such as `pci_0000_01_00_0`. Attributes that " +
			"don't apply to a device, or are unknown, are null." + asked,
		NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
			"capability": computedString("Kind of device, such as `pci`, `usb_device`, `net`, `storage` or `mdev`."),
			"parent":     computedString("Name of the device that this device is a part of."),
			"driver":     computedString("Driver of the host for the device; `vfio-pci` if it is reserved for VMs."),
			"vendor_id":  computedString("Vendor ID, such as `0x8086`."),
			"vendor":     computedString("Name of the vendor."),
			"product_id": computedString("Product ID."),
			"product":    computedString("Name of the product; of a disk, its model."),
			"address": computedString("Address of a PCI device, such as `0000:01:00.0`, or MAC address of a " +
				"network interface."),
			"device": computedString("Name of the device on the host, such as `eth0`, `/dev/sda` or " +
				"`/dev/bus/usb/001/002`."),
			"serial":     computedString("Serial number of a disk."),
			"size_bytes": computedNumber("Size of a disk."),
			"numa_cell":  computedNumber("NUMA cell that the device is near to."),
			"iommu_group": computedNumber("IOMMU group of the device. All devices of a group must be assigned to the " +
				"same VM."),
			"physical_function": computedString("For an SR-IOV virtual function: PCI address of its physical device."),
			"virtual_functions": schema.ListAttribute{
				Computed: true, ElementType: types.StringType,
				MarkdownDescription: "PCI addresses of the device's SR-IOV virtual functions. Null if it can have " +
					"none.",
			},
			"max_virtual_functions": computedNumber("Number of SR-IOV virtual functions that the device can have."),
			"mdev_type":             computedString("Type of a mediated device."),
			"mdev_uuid":             computedString("UUID of a mediated device."),
			"mdev_types": schema.MapAttribute{
				Computed: true, ElementType: types.Int64Type,
				MarkdownDescription: "Number of mediated devices that can still be created, by type. Null if the " +
					"device can have none.",
			},
		}},
	}
}

func fromNodeDevices(list []libvirt.NodeDevice) map[string]nodeDevice {
	if list == nil {
		return nil
	}
	all := make(map[string]nodeDevice, len(list))
	for _, d := range list {
		device := nodeDevice{
			Capability: d.Capability, Parent: orNull(d.Parent), Driver: orNull(d.Driver), VendorID: orNull(d.VendorID),
			Vendor: orNull(d.Vendor), ProductID: orNull(d.ProductID), Product: orNull(d.Product), Address: orNull(d.Address),
			Device: orNull(d.Device), Serial: orNull(d.Serial), NUMACell: int64Pointer(d.NUMACell),
			IOMMUGroup:       int64Pointer(d.IOMMUGroup),
			PhysicalFunction: orNull(d.PhysicalFunction), VirtualFunctions: d.VirtualFunctions,
			MaxVirtualFunctions: int64Pointer(d.MaxVirtualFunctions), MdevType: orNull(d.MdevType), MdevUUID: orNull(d.MdevUUID),
		}
		if d.SizeBytes != nil {
			device.SizeBytes = new(wholeNumber(*d.SizeBytes))
		}
		if d.MdevTypes != nil {
			device.MdevTypes = make(map[string]int64, len(d.MdevTypes))
			for name, n := range d.MdevTypes {
				device.MdevTypes[name] = int64(n)
			}
		}
		all[d.Name] = device
	}
	return all
}

// computedString returns a computed string attribute.
func computedString(description string) schema.StringAttribute {
	return schema.StringAttribute{Computed: true, MarkdownDescription: description}
}

// computedNumber returns a computed attribute for a whole number.
func computedNumber(description string) schema.Int64Attribute {
	return schema.Int64Attribute{Computed: true, MarkdownDescription: description}
}

// orNull returns nil for "".
func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func int64Pointer(n *int) *int64 {
	if n == nil {
		return nil
	}
	return new(int64(*n))
}

// wholeNumber converts an amount to Terraform's numbers.
func wholeNumber(n uint64) int64 { return int64(n) } //nolint:gosec // No host has 8 EiB.
