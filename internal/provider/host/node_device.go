package host

import (
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
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
			"capability": value.ReportedString("Kind of device, such as `pci`, `usb_device`, `net`, `storage` or `mdev`."),
			"parent":     value.ReportedString("Name of the device that this device is a part of."),
			"driver":     value.ReportedString("Driver of the host for the device; `vfio-pci` if it is reserved for VMs."),
			"vendor_id":  value.ReportedString("Vendor ID, such as `0x8086`."),
			"vendor":     value.ReportedString("Name of the vendor."),
			"product_id": value.ReportedString("Product ID."),
			"product":    value.ReportedString("Name of the product; of a disk, its model."),
			"address": value.ReportedString("Address of a PCI device, such as `0000:01:00.0`, or MAC address of a " +
				"network interface."),
			"device": value.ReportedString("Name of the device on the host, such as `eth0`, `/dev/sda` or " +
				"`/dev/bus/usb/001/002`."),
			"serial":     value.ReportedString("Serial number of a disk."),
			"size_bytes": value.ReportedNumber("Size of a disk."),
			"numa_cell":  value.ReportedNumber("NUMA cell that the device is near to."),
			"iommu_group": value.ReportedNumber("IOMMU group of the device. All devices of a group must be assigned to the " +
				"same VM."),
			"physical_function": value.ReportedString("For an SR-IOV virtual function: PCI address of its physical device."),
			"virtual_functions": schema.ListAttribute{
				Computed: true, ElementType: types.StringType,
				MarkdownDescription: "PCI addresses of the device's SR-IOV virtual functions. Null if it can have " +
					"none.",
			},
			"max_virtual_functions": value.ReportedNumber("Number of SR-IOV virtual functions that the device can have."),
			"mdev_type":             value.ReportedString("Type of a mediated device."),
			"mdev_uuid":             value.ReportedString("UUID of a mediated device."),
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
			Capability: d.Capability, Parent: value.TextOrNull(d.Parent), Driver: value.TextOrNull(d.Driver),
			VendorID: value.TextOrNull(d.VendorID), Vendor: value.TextOrNull(d.Vendor),
			ProductID: value.TextOrNull(d.ProductID), Product: value.TextOrNull(d.Product),
			Address: value.TextOrNull(d.Address), Device: value.TextOrNull(d.Device), Serial: value.TextOrNull(d.Serial),
			SizeBytes: value.WholeOrNull(d.SizeBytes), NUMACell: value.WholeOrNull(d.NUMACell),
			IOMMUGroup: value.WholeOrNull(d.IOMMUGroup), PhysicalFunction: value.TextOrNull(d.PhysicalFunction),
			VirtualFunctions: d.VirtualFunctions, MaxVirtualFunctions: value.WholeOrNull(d.MaxVirtualFunctions),
			MdevType: value.TextOrNull(d.MdevType), MdevUUID: value.TextOrNull(d.MdevUUID),
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
