package observe

import (
	"context"
	"slices"
	"sync"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// The parts of a host that are read only on request.
const (
	PartNUMA            = "numa_cells"
	PartCPU             = "cpu"
	PartSysinfo         = "sysinfo"
	PartNodeDevices     = "node_devices"
	PartVirtualMachines = "virtual_machines"
)

// The parts of a host that are always read: whether it is cordoned, and its networks.
const (
	PartCordon   = "cordon"
	PartNetworks = "networks"
)

// HostParts lists the parts, in the order of the documentation.
var HostParts = []string{PartNUMA, PartCPU, PartSysinfo, PartNodeDevices, PartVirtualMachines}

// HostDetails are read from a host on request. Each is nil without a request, or when the host can't report it.
type HostDetails struct {
	// NUMA is how much of each of Info.Cells is free, in their order.
	NUMA []libvirt.NUMAFree
	// CPU is the CPU that guests of the domain type DomainType can get.
	CPU         *libvirt.GuestCPUs
	DomainType  string
	Sysinfo     *libvirt.Sysinfo
	NodeDevices []libvirt.NodeDevice
	// VMs are the VMs that the host knows, sorted by name.
	VMs []HostedVM
}

// HostedVM is a VM that a host knows.
type HostedVM struct {
	UUID, Name string
	// Role is the host's role for the VM: a status.Role, RoleDefined or RoleStale; "" where that is unclear.
	Role string
	// Status is the VM's status, whichever host it is on.
	Status string
}

// Other roles of a host for a VM.
const (
	// RoleDefined is the host of a VM that is off.
	RoleDefined = "defined"
	// RoleStale is a host with a stale definition: the VM is on another host.
	RoleStale = "stale"
)

// fill reads the cordon, the networks and the requested parts, all at the same time.
func (s *HostStatus) fill(ctx context.Context, a inventory.Reply, q HostQuestion, defaultType string) {
	var (
		asking sync.WaitGroup
		mu     sync.Mutex
		d      = &s.Details
		conn   = a.Host.Conn
	)

	s.Unavailable = map[string]string{}
	part := func(name string, wanted bool, read func() error) {
		if !wanted {
			return
		}

		asking.Go(func() {
			if err := read(); err != nil {
				mu.Lock()
				defer mu.Unlock()

				s.Unavailable[name] = inventory.PlainCause(err)
			}
		})
	}
	wanted := func(name string) bool { return slices.Contains(q.Parts, name) }

	part(PartCordon, true, func() error {
		record, err := a.RecordOf(ctx)
		if err == nil {
			s.Cordon = record.Cordon
		}

		return err
	})
	part(PartNetworks, true, func() error { return s.takeNetworks(conn.Networks(ctx)) })
	part(PartNUMA, wanted(PartNUMA) && len(s.Info.Cells) > 0, func() (err error) {
		d.NUMA, err = conn.NUMAFree(ctx, s.Info.Cells)

		return err
	})
	part(PartCPU, wanted(PartCPU), func() (err error) {
		d.DomainType = a.TypeFor(domain.Spec{}, defaultType)
		d.CPU, err = conn.GuestCPUs(ctx, s.Info.Arch, d.DomainType)

		return err
	})
	part(PartSysinfo, wanted(PartSysinfo), func() (err error) {
		d.Sysinfo, err = conn.Sysinfo(ctx)

		return err
	})
	part(PartNodeDevices, wanted(PartNodeDevices), func() (err error) {
		d.NodeDevices, err = conn.NodeDevices(ctx, q.Capabilities)

		return err
	})
	asking.Wait()
}

// addVMs adds to each host the VMs that it knows, with their status, which also depends on the answers of the
// other hosts.
func (ob *Observer) addVMs(ctx context.Context, hosts []HostStatus, answers []inventory.Reply) {
	all, _ := ob.hosts.ListConsistent(ctx, answers)

	for i := range hosts {
		s := &hosts[i]

		at := slices.IndexFunc(answers, func(a inventory.Reply) bool { return a.Host.Name == s.Name })
		if s.Info == nil || s.Err != nil {
			continue
		}

		s.Details.VMs = []HostedVM{}

		for _, l := range all {
			if answers[at].View.Domains[l.UUID] != nil && !hasLeft(l, s.Name) {
				s.Details.VMs = append(s.Details.VMs, HostedVM{
					UUID: l.UUID, Name: l.Name, Role: roleOf(l, s.Name), Status: status.PrintableStatus(l.Facts()),
				})
			}
		}
	}
}

// hasLeft says whether the host had the VM when it was asked, and no longer has it.
func hasLeft(l inventory.Listed, host string) bool {
	return l.VM != nil && l.VM.Host != host && l.VM.ActiveHosts[host] == "" && !slices.Contains(l.VM.StaleHosts, host)
}

// roleOf returns the role of the host, which knows the VM, for the VM.
func roleOf(l inventory.Listed, host string) string {
	switch {
	case l.VM == nil:
		return ""
	case l.VM.ActiveHosts[host] != "":
		return string(l.VM.ActiveHosts[host])
	case l.VM.Host == host:
		return RoleDefined
	default:
		return RoleStale
	}
}
