package host

import (
	"strconv"

	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/observe"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// details are the facts about a host that are read only if `include` names them.
type details struct {
	NUMACells       []numaCell                `tfsdk:"numa_cells"`
	CPU             *cpu                      `tfsdk:"cpu"`
	Sysinfo         *sysinfo                  `tfsdk:"sysinfo"`
	NodeDevices     map[string]nodeDevice     `tfsdk:"node_devices"`
	VirtualMachines map[string]virtualMachine `tfsdk:"virtual_machines"`
}

// asked is the end of the description of an included attribute.
const asked = " Null unless `include` names it."

func detailAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		observe.PartNUMA:        numaAttribute(),
		observe.PartCPU:         cpuAttribute(),
		observe.PartSysinfo:     sysinfoAttribute(),
		observe.PartNodeDevices: nodeDevicesAttribute(),
		observe.PartVirtualMachines: schema.MapNestedAttribute{
			Computed:            true,
			MarkdownDescription: "The VMs that the host knows, by id." + asked,
			NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
				"name": value.ReportedString("Name of the VM."),
				"role": value.ReportedString(
					"Role of the host: `active` if the VM runs there; `source` or `target` while it moves; `defined` " +
						"if it is off; `stale` if this host has a stale definition of it. Null if unknown."),
				"status": value.ReportedString("Status of the VM, as KubeVirt prints it."),
			}},
		},
	}
}

// fromDetails maps what was included. The rest is nil.
func fromDetails(s observe.HostStatus) details {
	d := s.Details
	return details{
		NUMACells: fromNUMA(s.Info.Cells, d.NUMA), CPU: fromCPU(d.CPU, d.DomainType), Sysinfo: fromSysinfo(d.Sysinfo),
		NodeDevices: fromNodeDevices(d.NodeDevices), VirtualMachines: fromVirtualMachines(d.VMs),
	}
}

// numaCell is one NUMA cell of a host.
type numaCell struct {
	ID          int64            `tfsdk:"id"`
	MemoryBytes int64            `tfsdk:"memory_bytes"`
	UnusedBytes int64            `tfsdk:"unused_memory_bytes"`
	CPUs        []int64          `tfsdk:"cpus"`
	Distances   map[string]int64 `tfsdk:"distances"`
	Pages       []pagePool       `tfsdk:"pages"`
}

// pagePool is a cell's memory in pages of one size.
type pagePool struct {
	SizeBytes int64  `tfsdk:"size_bytes"`
	Total     int64  `tfsdk:"total"`
	Free      *int64 `tfsdk:"free"`
}

func numaAttribute() schema.ListNestedAttribute {
	return schema.ListNestedAttribute{
		Computed:            true,
		MarkdownDescription: "The host's NUMA cells, in the order of their numbers." + asked,
		NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
			"id":           value.ReportedNumber("Number of the cell."),
			"memory_bytes": value.ReportedNumber("Memory of the cell."),
			"unused_memory_bytes": value.ReportedNumber(
				"Memory of the cell that is unused now. The host's file cache counts as used. The " +
					"memory that may still be committed to VMs is the host's `free_memory_bytes`."),
			"cpus": schema.ListAttribute{
				Computed: true, ElementType: types.Int64Type,
				MarkdownDescription: "Numbers of the cell's logical processors.",
			},
			"distances": schema.MapAttribute{
				Computed: true, ElementType: types.Int64Type,
				MarkdownDescription: "Distance to the memory of each cell, by the cell's number. The distance to its " +
					"own memory is 10. Empty if the host doesn't report it.",
			},
			"pages": schema.ListNestedAttribute{
				Computed: true, MarkdownDescription: "Memory of the cell by size of pages. The larger ones are huge " +
					"pages.",
				NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
					"size_bytes": value.ReportedNumber("Size of a page."),
					"total":      value.ReportedNumber("Number of pages of this size."),
					"free": value.ReportedNumber("Number of pages of this size that are free now. Null if the host " +
						"doesn't report it."),
				}},
			},
		}},
	}
}

// fromNUMA joins the cells with their free memory. It returns nil if they weren't included.
func fromNUMA(cells []libvirt.NUMACell, free []libvirt.NUMAFree) []numaCell {
	if len(free) != len(cells) || free == nil {
		return nil
	}
	all := make([]numaCell, len(cells))
	for i, c := range cells {
		cell := numaCell{
			ID: int64(c.ID), MemoryBytes: value.Whole(c.MemoryBytes), UnusedBytes: value.Whole(free[i].MemoryBytes),
			CPUs:      []int64{},
			Distances: make(map[string]int64, len(c.Distances)), Pages: []pagePool{},
		}
		for _, id := range c.CPUs {
			cell.CPUs = append(cell.CPUs, int64(id))
		}
		for to, distance := range c.Distances {
			cell.Distances[strconv.Itoa(to)] = int64(distance)
		}
		for _, p := range c.Pages {
			pool := pagePool{SizeBytes: value.Whole(p.SizeBytes), Total: value.Whole(p.Pages)}
			if n, known := free[i].Pages[p.SizeBytes]; known {
				pool.Free = new(value.Whole(n))
			}
			cell.Pages = append(cell.Pages, pool)
		}
		all[i] = cell
	}
	return all
}

// cpu is the CPU that guests can get.
type cpu struct {
	DomainType string   `tfsdk:"domain_type"`
	HostModel  *string  `tfsdk:"host_model"`
	Vendor     *string  `tfsdk:"vendor"`
	Features   []string `tfsdk:"features"`
	Models     []string `tfsdk:"usable_models"`
}

func cpuAttribute() schema.SingleNestedAttribute {
	return schema.SingleNestedAttribute{
		Computed:            true,
		MarkdownDescription: "What VMs can get as a CPU here." + asked,
		Attributes: map[string]schema.Attribute{
			"domain_type": value.ReportedString("Domain type that `cpu` is for: that of VMs without `type`."),
			"host_model": value.ReportedString("CPU model of `cpu.mode = \"host-model\"`. Null if the host has no " +
				"such mode."),
			"vendor": value.ReportedString("Vendor of `host_model`."),
			"features": schema.ListAttribute{
				Computed: true, ElementType: types.StringType,
				MarkdownDescription: "Features that `cpu.mode = \"host-model\"` adds to `host_model`.",
			},
			"usable_models": schema.ListAttribute{
				Computed: true, ElementType: types.StringType,
				MarkdownDescription: "Named models that VMs can use here, in alphabetical order. A VM with a model that is " +
					"usable on all hosts of a fleet can move to each of them.",
			},
		},
	}
}

func fromCPU(c *libvirt.GuestCPUs, domainType string) *cpu {
	if c == nil {
		return nil
	}
	return &cpu{
		DomainType: domainType, HostModel: value.TextOrNull(c.HostModel), Vendor: value.TextOrNull(c.Vendor),
		Features: c.Features,
		Models:   c.Models,
	}
}

// sysinfo is what the firmware reports about the host.
type sysinfo struct {
	Manufacturer *string `tfsdk:"manufacturer"`
	Product      *string `tfsdk:"product"`
	Version      *string `tfsdk:"version"`
	Serial       *string `tfsdk:"serial"`
	UUID         *string `tfsdk:"uuid"`
	Family       *string `tfsdk:"family"`
	BIOSVendor   *string `tfsdk:"bios_vendor"`
	BIOSVersion  *string `tfsdk:"bios_version"`
	BIOSDate     *string `tfsdk:"bios_date"`
}

func sysinfoAttribute() schema.SingleNestedAttribute {
	return schema.SingleNestedAttribute{
		Computed: true,
		MarkdownDescription: "What the host's firmware reports about the host (SMBIOS). Null if it reports nothing: " +
			"see `unavailable`." + asked,
		Attributes: map[string]schema.Attribute{
			"manufacturer": value.ReportedString("Manufacturer of the host."),
			"product":      value.ReportedString("Product name."),
			"version":      value.ReportedString("Version of the product."),
			"serial":       value.ReportedString("Serial number."),
			"uuid":         value.ReportedString("UUID from the manufacturer."),
			"family":       value.ReportedString("Product family."),
			"bios_vendor":  value.ReportedString("Vendor of the firmware."),
			"bios_version": value.ReportedString("Version of the firmware."),
			"bios_date":    value.ReportedString("Date of the firmware."),
		},
	}
}

func fromSysinfo(s *libvirt.Sysinfo) *sysinfo {
	if s == nil {
		return nil
	}
	return &sysinfo{
		Manufacturer: value.TextOrNull(s.Manufacturer), Product: value.TextOrNull(s.Product),
		Version: value.TextOrNull(s.Version), Serial: value.TextOrNull(s.Serial), UUID: value.TextOrNull(s.UUID),
		Family: value.TextOrNull(s.Family), BIOSVendor: value.TextOrNull(s.BIOSVendor),
		BIOSVersion: value.TextOrNull(s.BIOSVersion), BIOSDate: value.TextOrNull(s.BIOSDate),
	}
}

// virtualMachine is a VM that the host has.
type virtualMachine struct {
	Name   string  `tfsdk:"name"`
	Role   *string `tfsdk:"role"`
	Status string  `tfsdk:"status"`
}

func fromVirtualMachines(list []observe.HostedVM) map[string]virtualMachine {
	if list == nil {
		return nil
	}
	all := make(map[string]virtualMachine, len(list))
	for _, vm := range list {
		all[vm.UUID] = virtualMachine{Name: vm.Name, Role: value.TextOrNull(vm.Role), Status: vm.Status}
	}
	return all
}
