package observe

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/hostrecord"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/policy"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// HostStatus is the status of one configured host.
type HostStatus struct {
	Name, URI string
	Labels    map[string]string
	// Err says why the host did not answer. Nil means that it did.
	Err error
	// Info is nil for a host that did not answer.
	Info *libvirt.HostInfo
	// MemoryLimit is how many bytes may be committed to VMs, CommittedMemory how many are. FreeMemory is the
	// difference.
	MemoryLimit, CommittedMemory, FreeMemory uint64
	Schedulable, Fenced                      bool
	Domains, ActiveDomains                   int
	// Networks are the names of libvirt's virtual networks there, sorted; nil if the host can't report them.
	Networks []string
	// Cordon is the mark that keeps VMs off the host, nil for none.
	Cordon *hostrecord.Cordon
	// Details are the requested parts, as far as the host reports them.
	Details HostDetails
	// Unavailable has the reason for each part that the host can't report: for PartCordon and PartNetworks, and for the
	// requested parts.
	Unavailable map[string]string
}

// HostQuestion selects hosts, and the parts to read in addition to the usual ones.
type HostQuestion struct {
	// Name is the name of a host, "" for all. A host must have all Labels.
	Name   string
	Labels map[string]string
	// Parts are some of HostParts.
	Parts []string
	// Capabilities select node devices that have at least one of them. None selects all: see
	// libvirt.NodeDeviceCapabilities.
	Capabilities []string
}

// Hosts returns the status of the configured hosts, ordered by name. For a host that does not answer, Err has the
// reason. Hosts returns no error for it.
func (ob *Observer) Hosts(ctx context.Context, q HostQuestion) ([]HostStatus, error) {
	answers, err := ob.hosts.Snapshot(ctx)
	if err != nil {
		return nil, err
	}

	asked := slices.DeleteFunc(slices.Clone(answers), func(a inventory.Reply) bool {
		return q.Name != "" && a.Host.Name != q.Name || !policy.HasLabels(a.Host.Config.Labels, q.Labels)
	})
	all := make([]HostStatus, len(asked))

	var wg sync.WaitGroup

	for i, a := range asked {
		wg.Go(func() {
			all[i] = statusOf(a)
			if all[i].Err == nil && a.Info != nil {
				all[i].fill(ctx, a, q, ob.defaultType)
			}
		})
	}

	wg.Wait()

	if slices.Contains(q.Parts, PartVirtualMachines) {
		ob.addVMs(ctx, all, answers)
	}

	return all, ctx.Err()
}

// statusOf returns the status from the reading of a host.
func statusOf(a inventory.Reply) HostStatus {
	s := HostStatus{
		Name: a.Host.Name, URI: a.Host.Config.URI, Labels: maps.Clone(a.Host.Config.Labels),
		Schedulable: !a.Host.Config.Unschedulable, Fenced: a.Host.Config.Fenced, Err: a.Err, Info: a.Info,
	}
	if a.Info == nil {
		return s
	}

	s.MemoryLimit = a.MemoryLimit()
	s.CommittedMemory = a.Committed("")
	s.FreeMemory = s.MemoryLimit - min(s.MemoryLimit, s.CommittedMemory)
	s.Domains = len(a.View.Domains)

	for _, e := range a.View.Domains {
		if e.Active() {
			s.ActiveDomains++
		}
	}

	return s
}

// takeNetworks takes the host's answer about its networks, and returns why they are unknown. A host whose daemon for
// networks doesn't run answers otherwise.
func (s *HostStatus) takeNetworks(networks []libvirt.Network, err error) error {
	if errors.Is(err, inventory.ErrUnreachable) {
		s.Err = err
	}

	if errors.Is(err, libvirt.ErrUnsupported) {
		err = nil // Then it has none.
	}

	if err != nil {
		return err
	}

	s.Networks = []string{}
	for _, n := range networks {
		s.Networks = append(s.Networks, n.Name)
	}

	slices.Sort(s.Networks)

	return nil
}
