package host

import (
	"strconv"

	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// details are what is read of a host when it is asked for.
type details struct {
	NUMACells   []numaCell            `tfsdk:"numa_cells"`
	CPU         *cpu                  `tfsdk:"cpu"`
	Sysinfo     *sysinfo              `tfsdk:"sysinfo"`
	NodeDevices map[string]nodeDevice `tfsdk:"node_devices"`
	Machines    map[string]machine    `tfsdk:"machines"`
}

// asked is what a description of an included attribute ends with.
const asked = " Null unless `include` names it."

func detailAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		fleet.PartNUMA:        numaAttribute(),
		fleet.PartCPU:         cpuAttribute(),
		fleet.PartSysinfo:     sysinfoAttribute(),
		fleet.PartNodeDevices: nodeDevicesAttribute(),
		fleet.PartMachines: schema.MapNestedAttribute{
			Computed:            true,
			MarkdownDescription: "The virtual machines that the host knows, by id." + asked,
			NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
				"name": text("Name of the machine."),
				"role": text("What the host is to it: `active`, or `source` or `target` while it moves; `defined` where it is " +
					"off; `leftover` where it is elsewhere and a definition was left behind. Null when that isn't clear."),
				"status": text("What the machine does, as KubeVirt prints it."),
			}},
		},
	}
}

// fromDetails maps what was asked for; what wasn't is nil.
func fromDetails(s fleet.HostStatus) details {
	d := s.Details
	return details{
		NUMACells: fromNUMA(s.Info.Cells, d.NUMA), CPU: fromCPU(d.CPU, d.DomainType), Sysinfo: fromSysinfo(d.Sysinfo),
		NodeDevices: fromNodeDevices(d.NodeDevices), Machines: fromMachines(d.Machines),
	}
}

// numaCell is one NUMA cell of a host.
type numaCell struct {
	ID          int64            `tfsdk:"id"`
	MemoryBytes int64            `tfsdk:"memory_bytes"`
	FreeBytes   int64            `tfsdk:"free_memory_bytes"`
	CPUs        []int64          `tfsdk:"cpus"`
	Distances   map[string]int64 `tfsdk:"distances"`
	Pages       []pagePool       `tfsdk:"pages"`
}

// pagePool is the memory of a cell that has pages of one size.
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
			"id":           number("Number of the cell."),
			"memory_bytes": number("Memory of the cell."),
			"free_memory_bytes": number("Memory of the cell that nobody uses now. What the host caches files in is not free; " +
				"what may still be promised to machines is the host's `free_memory_bytes`."),
			"cpus": schema.ListAttribute{
				Computed: true, ElementType: types.Int64Type,
				MarkdownDescription: "Numbers of its logical processors.",
			},
			"distances": schema.MapAttribute{
				Computed: true, ElementType: types.Int64Type,
				MarkdownDescription: "How far the memory of each cell is for these processors, by the cell's number; its own is " +
					"10. Empty where the host doesn't say.",
			},
			"pages": schema.ListNestedAttribute{
				Computed: true, MarkdownDescription: "Its memory by size of pages, the larger ones being huge pages.",
				NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
					"size_bytes": number("Size of a page."),
					"total":      number("How many of them there are."),
					"free":       number("How many of them are free now; null where the host doesn't say."),
				}},
			},
		}},
	}
}

// fromNUMA joins what cells there are with what of them is free, nil when nobody asked.
func fromNUMA(cells []libvirt.NUMACell, free []libvirt.NUMAFree) []numaCell {
	if len(free) != len(cells) || free == nil {
		return nil
	}
	all := make([]numaCell, len(cells))
	for i, c := range cells {
		cell := numaCell{
			ID: int64(c.ID), MemoryBytes: whole(c.MemoryBytes), FreeBytes: whole(free[i].MemoryBytes), CPUs: []int64{},
			Distances: make(map[string]int64, len(c.Distances)), Pages: []pagePool{},
		}
		for _, id := range c.CPUs {
			cell.CPUs = append(cell.CPUs, int64(id))
		}
		for to, distance := range c.Distances {
			cell.Distances[strconv.Itoa(to)] = int64(distance)
		}
		for _, p := range c.Pages {
			pool := pagePool{SizeBytes: whole(p.SizeBytes), Total: whole(p.Pages)}
			if n, known := free[i].Pages[p.SizeBytes]; known {
				pool.Free = new(whole(n))
			}
			cell.Pages = append(cell.Pages, pool)
		}
		all[i] = cell
	}
	return all
}

// cpu is what guests can get as a CPU.
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
		MarkdownDescription: "What virtual machines can get as a CPU here." + asked,
		Attributes: map[string]schema.Attribute{
			"domain_type": text("The domain type that this is about: that of machines which declare none."),
			"host_model":  text("The model that `cpu.mode = \"host-model\"` stands for; null where the host has no such mode."),
			"vendor":      text("Vendor of that model."),
			"features": schema.ListAttribute{
				Computed: true, ElementType: types.StringType,
				MarkdownDescription: "What `host-model` adds to that model.",
			},
			"usable_models": schema.ListAttribute{
				Computed: true, ElementType: types.StringType,
				MarkdownDescription: "Named models that machines can use here, in order. A machine with a model that is usable " +
					"on all hosts of a fleet can move to each of them.",
			},
		},
	}
}

func fromCPU(c *libvirt.GuestCPUs, domainType string) *cpu {
	if c == nil {
		return nil
	}
	return &cpu{
		DomainType: domainType, HostModel: orNull(c.HostModel), Vendor: orNull(c.Vendor), Features: c.Features,
		Models: c.Models,
	}
}

// sysinfo is what the host's firmware says of it.
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
		MarkdownDescription: "What the host's firmware says of the host (SMBIOS). Null where it says nothing, which " +
			"`unavailable` tells." + asked,
		Attributes: map[string]schema.Attribute{
			"manufacturer": text("Who made the host."),
			"product":      text("Its product name."),
			"version":      text("Version of the product."),
			"serial":       text("Its serial number."),
			"uuid":         text("The UUID that its maker gave it."),
			"family":       text("Family of the product."),
			"bios_vendor":  text("Who made its firmware."),
			"bios_version": text("Version of its firmware."),
			"bios_date":    text("Date of its firmware."),
		},
	}
}

func fromSysinfo(s *libvirt.Sysinfo) *sysinfo {
	if s == nil {
		return nil
	}
	return &sysinfo{
		Manufacturer: orNull(s.Manufacturer), Product: orNull(s.Product), Version: orNull(s.Version),
		Serial: orNull(s.Serial), UUID: orNull(s.UUID), Family: orNull(s.Family), BIOSVendor: orNull(s.BIOSVendor),
		BIOSVersion: orNull(s.BIOSVersion), BIOSDate: orNull(s.BIOSDate),
	}
}

// machine is a virtual machine that a host knows.
type machine struct {
	Name   string  `tfsdk:"name"`
	Role   *string `tfsdk:"role"`
	Status string  `tfsdk:"status"`
}

func fromMachines(list []fleet.HostedMachine) map[string]machine {
	if list == nil {
		return nil
	}
	all := make(map[string]machine, len(list))
	for _, m := range list {
		all[m.UUID] = machine{Name: m.Name, Role: orNull(m.Role), Status: m.Status}
	}
	return all
}
