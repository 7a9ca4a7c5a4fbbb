package libvirt

import (
	"cmp"
	"context"
	"encoding/xml"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
)

// Version is a version of libvirt or of a hypervisor.
type Version struct{ Major, Minor, Micro int }

// parseVersion parses libvirt's number: major * 1,000,000 + minor * 1,000 + micro.
func parseVersion(number uint32) Version {
	n := int(number)
	return Version{Major: n / 1_000_000, Minor: n / 1_000 % 1_000, Micro: n % 1_000}
}

// String returns a text such as "9.0.0".
func (v Version) String() string { return fmt.Sprintf("%d.%d.%d", v.Major, v.Minor, v.Micro) }

// AtLeast reports whether v is that version or a later one.
func (v Version) AtLeast(major, minor, micro int) bool {
	if v.Major != major {
		return v.Major > major
	}
	if v.Minor != minor {
		return v.Minor > minor
	}
	return v.Micro >= micro
}

// HostInfo is what a host reports about itself.
type HostInfo struct {
	UUID              string // libvirt's host UUID, from the capabilities
	Hostname          string
	URI               string // as configured, or as libvirt chose
	Driver            string // virConnectGetType: "QEMU", "TEST"
	Arch              string
	CPUModel          string
	CPUVendor         string
	CPUs              int // online logical CPUs
	MemoryBytes       uint64
	LibvirtVersion    Version // the daemon's
	HypervisorVersion Version
	// QEMUUser is the id of the user that QEMU runs as, "" if libvirt doesn't report it.
	QEMUUser string
	// SecurityModels are the models of its security drivers: "dac", "selinux", "apparmor".
	SecurityModels []string
	Guests         []Guest
	// LacksIOMMU says that the host can't give PCI devices to VMs: it has no IOMMU, or its kernel doesn't use it. It is
	// false if libvirt doesn't report that.
	LacksIOMMU bool
	// Caches are the caches whose parts it can allocate to VMs, and MemoryBandwidth the numbers of the memory
	// controllers whose bandwidth it can (resctrl).
	Caches          []CacheControl
	MemoryBandwidth []int
	// Cells are the host's NUMA cells, ordered by their numbers. Every host that reports its topology
	// has at least one.
	Cells []NUMACell
}

// CacheControl is a cache whose parts a host can allocate.
type CacheControl struct {
	Level, ID int
	Type      string // what the parts are for: "both", "code", "data"
}

// Guest is one architecture that the host can run.
type Guest struct {
	Arch         string
	DomainTypes  []string // "kvm", "qemu"
	MachineTypes []string // machine types and their aliases, of all domain types
	// MaxCPUs is how many virtual CPUs a machine type supports, by its name or alias.
	MaxCPUs map[string]int
}

// HasAnswered reports whether the host has answered this process before.
func (h *Host) HasAnswered() bool {
	h.infoMu.Lock()
	defer h.infoMu.Unlock()
	return h.info != nil
}

// Answers reports whether the host's daemon answers within some seconds (virConnectGetLibVersion).
func (h *Host) Answers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	_, err := call(ctx, h, readCall("asking whether the host answers"), func(c *conn) (uint32, error) {
		c.countCall("virConnectGetLibVersion")
		return c.c.GetLibVersion()
	})
	return err == nil
}

// Info describes the host. It is read once per connection, so a daemon that was restarted or upgraded is asked again.
// The result is shared and must not be changed.
//
// It uses virConnectGetCapabilities, -GetHostname, -GetLibVersion, -GetVersion, -GetType and virNodeGetInfo.
func (h *Host) Info(ctx context.Context) (*HostInfo, error) {
	h.infoMu.Lock()
	known, epoch := h.info, h.epoch
	h.infoMu.Unlock()
	if known != nil && !epoch.isBroken() {
		return known, nil
	}
	type found struct {
		info *HostInfo
		c    *conn
	}
	f, err := call(ctx, h, readCall("reading the host's description"), func(c *conn) (found, error) {
		info, err := c.readInfo()
		return found{info, c}, err
	})
	if err != nil {
		return nil, err
	}
	h.infoMu.Lock()
	defer h.infoMu.Unlock()
	h.info, h.epoch = f.info, f.c
	return f.info, nil
}

// isBroken reports whether the connection is known to be broken; it may be called on a freed connection.
func (c *conn) isBroken() bool { return c.lost.Load() }

// readInfo reads everything in one round trip.
func (c *conn) readInfo() (*HostInfo, error) {
	info := &HostInfo{URI: c.host.cfg.URI}
	var capabilities string
	var calls errgroup.Group
	calls.Go(func() (err error) {
		c.countCall("virConnectGetCapabilities")
		capabilities, err = c.c.GetCapabilities()
		return err
	})
	calls.Go(func() (err error) {
		c.countCall("virConnectGetHostname")
		info.Hostname, err = c.c.GetHostname()
		return err
	})
	calls.Go(func() (err error) {
		c.countCall("virConnectGetType")
		info.Driver, err = c.c.GetType()
		return err
	})
	calls.Go(func() error {
		c.countCall("virConnectGetLibVersion")
		number, err := c.c.GetLibVersion()
		info.LibvirtVersion = parseVersion(number)
		return err
	})
	calls.Go(func() error {
		c.countCall("virConnectGetVersion")
		number, err := c.c.GetVersion()
		info.HypervisorVersion = parseVersion(number)
		return err
	})
	calls.Go(func() error {
		c.countCall("virNodeGetInfo")
		node, err := c.c.GetNodeInfo()
		if err == nil {
			info.CPUs, info.MemoryBytes = int(node.Cpus), node.Memory*1024
		}
		return err
	})
	if err := calls.Wait(); err != nil {
		return nil, err
	}
	if info.URI == "" {
		var err error
		if info.URI, err = c.c.GetURI(); err != nil {
			return nil, err
		}
	}
	return info, info.readCapabilities(capabilities)
}

// capabilitiesMachine and capabilitiesGuest are parts of libvirt's capabilities document.
type capabilitiesMachine struct {
	Name    string `xml:",chardata"`
	MaxCPUs int    `xml:"maxCpus,attr"`
}

type capabilitiesGuest struct {
	Arch struct {
		Name     string                `xml:"name,attr"`
		Machines []capabilitiesMachine `xml:"machine"`
		Domains  []struct {
			Type     string                `xml:"type,attr"`
			Machines []capabilitiesMachine `xml:"machine"`
		} `xml:"domain"`
	} `xml:"arch"`
}

func (g capabilitiesGuest) guest() Guest {
	guest := Guest{Arch: g.Arch.Name, MaxCPUs: map[string]int{}}
	known := map[string]bool{}
	add := func(machines []capabilitiesMachine) {
		for _, m := range machines {
			if m.MaxCPUs > 0 {
				guest.MaxCPUs[m.Name] = max(guest.MaxCPUs[m.Name], m.MaxCPUs)
			}
			if !known[m.Name] {
				known[m.Name] = true
				guest.MachineTypes = append(guest.MachineTypes, m.Name)
			}
		}
	}
	add(g.Arch.Machines)
	for _, d := range g.Arch.Domains {
		guest.DomainTypes = append(guest.DomainTypes, d.Type)
		add(d.Machines)
	}
	return guest
}

// readCapabilities reads the relevant values from libvirt's capabilities document.
func (i *HostInfo) readCapabilities(document string) error {
	var capabilities struct {
		UUID   string             `xml:"host>uuid"`
		Arch   string             `xml:"host>cpu>arch"`
		Model  string             `xml:"host>cpu>model"`
		Vendor string             `xml:"host>cpu>vendor"`
		Cells  []capabilitiesCell `xml:"host>topology>cells>cell"`
		Models []struct {
			Name   string   `xml:"model"`
			Labels []string `xml:"baselabel"`
		} `xml:"host>secmodel"`
		Banks []struct {
			ID       int `xml:"id,attr"`
			Level    int `xml:"level,attr"`
			Controls []struct {
				Type string `xml:"type,attr"`
			} `xml:"control"`
		} `xml:"host>cache>bank"`
		Bandwidth []struct {
			ID       int        `xml:"id,attr"`
			Controls []struct{} `xml:"control"`
		} `xml:"host>memory_bandwidth>node"`
		IOMMU struct {
			Support string `xml:"support,attr"`
		} `xml:"host>iommu"`
		Guests []capabilitiesGuest `xml:"guest"`
	}
	if err := xml.Unmarshal([]byte(document), &capabilities); err != nil {
		return fmt.Errorf("%w: the host's capabilities can't be read: %w", ErrInternal, err)
	}
	i.UUID, i.Arch, i.CPUModel = capabilities.UUID, capabilities.Arch, capabilities.Model
	i.CPUVendor = capabilities.Vendor
	// libvirt's test driver says no of every host.
	i.LacksIOMMU = i.Driver == "QEMU" && capabilities.IOMMU.Support == "no"
	for _, m := range capabilities.Models {
		i.SecurityModels = append(i.SecurityModels, m.Name)
		if m.Name == "dac" && len(m.Labels) > 0 { // The label "+64055:+64055" is the same for all types.
			i.QEMUUser, _, _ = strings.Cut(strings.TrimPrefix(m.Labels[0], "+"), ":")
		}
	}
	for _, bank := range capabilities.Banks {
		for _, control := range bank.Controls {
			i.Caches = append(i.Caches, CacheControl{Level: bank.Level, ID: bank.ID, Type: control.Type})
		}
	}
	for _, node := range capabilities.Bandwidth {
		if len(node.Controls) > 0 {
			i.MemoryBandwidth = append(i.MemoryBandwidth, node.ID)
		}
	}
	for _, c := range capabilities.Cells {
		i.Cells = append(i.Cells, c.numaCell())
	}
	slices.SortFunc(i.Cells, func(a, b NUMACell) int { return cmp.Compare(a.ID, b.ID) })
	for _, g := range capabilities.Guests {
		i.Guests = append(i.Guests, g.guest())
	}
	return nil
}
