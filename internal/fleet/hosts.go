package fleet

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/policy"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// HostStatus is what is known of one configured host.
type HostStatus struct {
	Name, URI string
	Labels    map[string]string
	// Err says why the host did not answer. Nil: it did.
	Err error
	// Info is nil for a host that did not answer.
	Info *libvirt.HostInfo
	// MemoryLimit is how many bytes may be committed to machines,
	// CommittedMemory how many are. FreeMemory is the difference.
	MemoryLimit, CommittedMemory, FreeMemory uint64
	Schedulable, Fenced                      bool
	Domains, ActiveDomains                   int
	// Networks are the names of libvirt's virtual networks there, sorted.
	Networks []string
	// Cordon is the mark that keeps machines away; nil: there is none.
	Cordon *Cordon
	// Details are what was asked for, as far as the host tells.
	Details HostDetails
	// Unavailable says of each part that the host can't tell why: of PartCordon,
	// and of those that were asked for.
	Unavailable map[string]string
}

// HostQuestion picks hosts, and says what is asked of them besides what one
// reading of a host tells anyway.
type HostQuestion struct {
	// Name is a host's, "" of all. Labels must all be on it.
	Name   string
	Labels map[string]string
	// Parts are some of HostParts.
	Parts []string
	// Capabilities are those that node devices must have one of; none is any, see
	// libvirt.NodeDeviceCapabilities.
	Capabilities []string
}

// Hosts returns the status of the configured hosts, in the order of their names.
// A host that does not answer says why in Err; it is no error here.
func (f *Fleet) Hosts(ctx context.Context, q HostQuestion) ([]HostStatus, error) {
	answers, err := f.snapshot(ctx)
	if err != nil {
		return nil, err
	}

	asked := slices.DeleteFunc(slices.Clone(answers), func(a answer) bool {
		return q.Name != "" && a.host.name != q.Name || !policy.HasLabels(a.host.cfg.Labels, q.Labels)
	})
	all := make([]HostStatus, len(asked))

	var wg sync.WaitGroup

	for i, a := range asked {
		wg.Go(func() {
			all[i] = a.status(ctx)
			if all[i].Err == nil && a.info != nil {
				all[i].fill(ctx, a, q, f.defaultType)
			}
		})
	}

	wg.Wait()

	if slices.Contains(q.Parts, PartMachines) {
		f.addMachines(ctx, all, answers)
	}

	return all, ctx.Err()
}

// status is what the reading of a host tells, and its networks.
func (a answer) status(ctx context.Context) HostStatus {
	s := HostStatus{
		Name: a.host.name, URI: a.host.cfg.URI, Labels: maps.Clone(a.host.cfg.Labels),
		Schedulable: !a.host.cfg.Unschedulable, Fenced: a.host.cfg.Fenced, Err: a.err, Info: a.info,
	}
	if a.info == nil {
		return s
	}

	s.MemoryLimit = a.memoryLimit()
	s.CommittedMemory = a.committed("")
	s.FreeMemory = s.MemoryLimit - min(s.MemoryLimit, s.CommittedMemory)
	s.Domains = len(a.view.domains)

	for _, e := range a.view.domains {
		if e.Active() {
			s.ActiveDomains++
		}
	}

	networks, err := a.host.conn.Networks(ctx)
	if err != nil && !errors.Is(err, ErrUnsupported) {
		s.Err = err

		return s
	}

	for _, n := range networks {
		s.Networks = append(s.Networks, n.Name)
	}

	slices.Sort(s.Networks)

	return s
}

// memoryLimit is how many bytes may be committed to machines on the host.
func (a answer) memoryLimit() uint64 {
	if a.host.cfg.MemoryLimit > 0 {
		return a.host.cfg.MemoryLimit
	}

	return a.info.MemoryBytes
}

// committed is how many bytes are promised to machines on the host: to those
// that run, and to those that somebody is about to start. The one with the UUID
// of one that leaves doesn't count.
func (a answer) committed(leaving string) uint64 {
	var sum uint64

	for uuid, e := range a.view.domains {
		if uuid != leaving {
			sum += e.committedMemory()
		}
	}

	return sum
}

// committedMemory is what the domain may use now. The most that a guest can get
// without asking the host again counts, not what its balloon leaves it.
func (e *entry) committedMemory() uint64 {
	p := e.parse()
	if p.definition() == nil {
		return 0
	}

	spec := p.liveSpec
	if spec == nil && p.definition().Metadata().Creating != nil {
		spec = p.persistentSpec
	}

	if spec == nil || spec.Memory.Installed == nil {
		return 0
	}

	return *spec.Memory.Installed
}
