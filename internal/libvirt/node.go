package libvirt

import (
	"context"
	"encoding/xml"
	"fmt"
	"slices"
	"strings"

	golibvirt "libvirt.org/go/libvirt"
)

// NUMACell is one NUMA cell of a host: processors, and the memory near them.
type NUMACell struct {
	ID          int
	MemoryBytes uint64
	// CPUs are the numbers of its logical processors, sorted.
	CPUs []int
	// Pages are the pools of its memory, one for each size of pages.
	Pages []PagePool
	// Distances are the distances from this cell's processors to the memory of each cell, by cell: 10 is local.
	Distances map[int]int
}

// PagePool is the memory of a NUMA cell that is divided into pages of one size.
type PagePool struct{ SizeBytes, Pages uint64 }

// capabilitiesCell is a cell in libvirt's capabilities document.
type capabilitiesCell struct {
	ID     int      `xml:"id,attr"`
	Memory amountOf `xml:"memory"`
	Pages  []struct {
		Unit  string `xml:"unit,attr"`
		Size  uint64 `xml:"size,attr"`
		Count uint64 `xml:",chardata"`
	} `xml:"pages"`
	Distances []struct {
		ID    int `xml:"id,attr"`
		Value int `xml:"value,attr"`
	} `xml:"distances>sibling"`
	CPUs []struct {
		ID int `xml:"id,attr"`
	} `xml:"cpus>cpu"`
}

// amountOf is an amount of memory with its unit in libvirt's documents.
type amountOf struct {
	Unit  string `xml:"unit,attr"`
	Value uint64 `xml:",chardata"`
}

// bytes returns the amount in bytes. libvirt's default unit is KiB.
func (a amountOf) bytes() uint64 {
	switch a.Unit {
	case "b", "bytes":
		return a.Value
	default:
		return a.Value * kibibyte
	}
}

const kibibyte = 1024

func (c capabilitiesCell) numaCell() NUMACell {
	cell := NUMACell{ID: c.ID, MemoryBytes: c.Memory.bytes(), CPUs: []int{}, Distances: map[int]int{}}
	for _, cpu := range c.CPUs {
		cell.CPUs = append(cell.CPUs, cpu.ID)
	}
	slices.Sort(cell.CPUs)
	for _, p := range c.Pages {
		cell.Pages = append(cell.Pages, PagePool{SizeBytes: amountOf{p.Unit, p.Size}.bytes(), Pages: p.Count})
	}
	for _, d := range c.Distances {
		cell.Distances[d.ID] = d.Value
	}
	return cell
}

// NUMAFree is the unused memory of a NUMA cell.
type NUMAFree struct {
	MemoryBytes uint64
	// Pages are the numbers of free pages by their size in bytes.
	Pages map[uint64]uint64
}

// NUMAFree returns the free memory of each of the cells, in their order. Page cache doesn't count as free.
//
// It uses virNodeGetCellsFreeMemory and virNodeGetFreePages, pipelined, once per cell because their numbers may have
// gaps.
func (h *Host) NUMAFree(ctx context.Context, cells []NUMACell) ([]NUMAFree, error) {
	return call(ctx, h, readCall("reading the free memory of NUMA cells"), func(c *conn) ([]NUMAFree, error) {
		free := make([]NUMAFree, len(cells))
		calls := c.newPipeline()
		for i, cell := range cells {
			calls.Go(func() error {
				c.countCall("virNodeGetCellsFreeMemory")
				found, err := c.c.GetCellsFreeMemory(cell.ID, 1)
				if err == nil && len(found) > 0 {
					free[i].MemoryBytes = found[0]
				}
				return err
			})
			if len(cell.Pages) > 0 {
				calls.Go(func() (err error) {
					free[i].Pages, err = c.freePages(cell)
					return err
				})
			}
		}
		if err := calls.Wait(); err != nil {
			return nil, err
		}
		return free, nil
	})
}

// freePages returns the numbers of free pages of a cell by page size.
func (c *conn) freePages(cell NUMACell) (map[uint64]uint64, error) {
	sizes := make([]uint64, len(cell.Pages))
	for i, p := range cell.Pages {
		sizes[i] = p.SizeBytes / kibibyte
	}
	c.countCall("virNodeGetFreePages")
	found, err := c.c.GetFreePages(sizes, cell.ID, 1, 0)
	if err != nil {
		return nil, err
	}
	pages := make(map[uint64]uint64, len(found))
	for i, n := range found[:min(len(found), len(sizes))] {
		pages[cell.Pages[i].SizeBytes] = n
	}
	return pages, nil
}

// Sysinfo is what a host's firmware reports about the host. Values that it doesn't report are "".
type Sysinfo struct {
	BIOSVendor, BIOSVersion, BIOSDate                    string
	Manufacturer, Product, Version, Serial, UUID, Family string
}

// Sysinfo reads what the host's firmware reports about the host (virConnectGetSysinfo). It returns ErrUnsupported for a
// host without such tables, as many virtual hosts are.
func (h *Host) Sysinfo(ctx context.Context) (*Sysinfo, error) {
	return call(ctx, h, readCall("reading the host's system information"), func(c *conn) (*Sysinfo, error) {
		c.countCall("virConnectGetSysinfo")
		document, err := c.c.GetSysinfo(0)
		if err != nil {
			return nil, err
		}
		return parseSysinfo(document)
	})
}

func parseSysinfo(document string) (*Sysinfo, error) {
	type entries []struct {
		Name  string `xml:"name,attr"`
		Value string `xml:",chardata"`
	}
	var tables struct {
		BIOS   entries `xml:"bios>entry"`
		System entries `xml:"system>entry"`
	}
	if err := xml.Unmarshal([]byte(document), &tables); err != nil {
		return nil, fmt.Errorf("%w: the host's system information can't be read: %w", ErrInternal, err)
	}
	s := &Sysinfo{}
	fields := map[string]*string{
		"bios/vendor": &s.BIOSVendor, "bios/version": &s.BIOSVersion, "bios/date": &s.BIOSDate,
		"system/manufacturer": &s.Manufacturer, "system/product": &s.Product, "system/version": &s.Version,
		"system/serial": &s.Serial, "system/uuid": &s.UUID, "system/family": &s.Family,
	}
	for table, list := range map[string]entries{"bios": tables.BIOS, "system": tables.System} {
		for _, e := range list {
			if field := fields[table+"/"+e.Name]; field != nil {
				*field = strings.TrimSpace(e.Value)
			}
		}
	}
	return s, nil
}

// GuestCPUs are the CPUs that a host's hypervisor can provide to guests.
type GuestCPUs struct {
	// HostModel is the model that "host-model" stands for, Vendor its vendor; "" if the host has no such mode.
	HostModel, Vendor string
	// Features are those that host-model requires in addition to the model's own, sorted.
	Features []string
	// Models are the named models that guests can use, sorted.
	Models []string
}

// GuestCPUs reads the CPUs that the host can provide to a kind of guest (virConnectGetDomainCapabilities). virtType is
// "kvm" or "qemu"; an empty arch means the host's.
func (h *Host) GuestCPUs(ctx context.Context, arch, virtType string) (*GuestCPUs, error) {
	return call(ctx, h, readCall("reading the CPUs for guests"), func(c *conn) (*GuestCPUs, error) {
		c.countCall("virConnectGetDomainCapabilities")
		document, err := c.c.GetDomainCapabilities("", arch, "", virtType, golibvirt.ConnectGetDomainCapabilitiesFlags(0))
		if err != nil {
			return nil, err
		}
		return parseGuestCPUs(document)
	})
}

func parseGuestCPUs(document string) (*GuestCPUs, error) {
	var capabilities struct {
		Modes []struct {
			Name      string `xml:"name,attr"`
			Supported string `xml:"supported,attr"`
			Vendor    string `xml:"vendor"`
			Features  []struct {
				Policy string `xml:"policy,attr"`
				Name   string `xml:"name,attr"`
			} `xml:"feature"`
			Models []struct {
				Usable string `xml:"usable,attr"`
				Name   string `xml:",chardata"`
			} `xml:"model"`
		} `xml:"cpu>mode"`
	}
	if err := xml.Unmarshal([]byte(document), &capabilities); err != nil {
		return nil, fmt.Errorf("%w: the domain capabilities can't be read: %w", ErrInternal, err)
	}
	cpus := &GuestCPUs{Features: []string{}, Models: []string{}}
	for _, mode := range capabilities.Modes {
		switch {
		case mode.Supported != "yes":
		case mode.Name == "host-model" && len(mode.Models) > 0:
			cpus.HostModel, cpus.Vendor = mode.Models[0].Name, mode.Vendor
			for _, f := range mode.Features {
				if f.Policy == "require" {
					cpus.Features = append(cpus.Features, f.Name)
				}
			}
		case mode.Name == "custom":
			for _, m := range mode.Models {
				if m.Usable == "yes" {
					cpus.Models = append(cpus.Models, m.Name)
				}
			}
		}
	}
	slices.Sort(cpus.Features)
	slices.Sort(cpus.Models)
	return cpus, nil
}
