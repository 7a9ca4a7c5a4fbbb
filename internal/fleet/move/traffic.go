package move

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/admission"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// trafficTimeout bounds the one question to each host about what moves. A host that doesn't answer in time counts as
// one where nothing does, so one that is only slow has time enough.
const trafficTimeout = 15 * time.Second

// trafficNow reads which VMs are on their way between hosts of the fleet, by UUID, whoever moves them: those that two
// hosts have a process of, and that their source has a job for. What a run left behind that was killed has none, unless
// QEMU goes on by itself. It is one call per host, which waits for no VM, and one for each VM that is on its way.
func (mv *Mover) trafficNow(ctx context.Context) map[string]admission.Route {
	ctx, cancel := context.WithTimeout(ctx, trafficTimeout)
	defer cancel()

	seen := make([][]libvirt.DomainStats, len(mv.hosts.Configured))

	var all sync.WaitGroup

	for i, h := range mv.hosts.Configured {
		if h.Config.Fenced {
			continue
		}

		all.Go(func() {
			found, err := h.Conn.Stats(ctx, libvirt.StatsState)
			if err != nil {
				mv.log.DebugContext(ctx, "what moves on a host is not known", "host", h.Name, "error", err.Error())
			}

			seen[i] = found
		})
	}

	all.Wait()

	moving := routes(mv.hosts.HostNames(), seen)

	for _, uuid := range slices.Collect(maps.Keys(moving)) {
		job, err := mv.hosts.Host(moving[uuid].From).Conn.Job(ctx, uuid)
		if err == nil && (job == nil || !job.Type.Active()) || inventory.IsNotFound(err) {
			delete(moving, uuid)
		}
	}

	return moving
}

// routes finds the VMs that two hosts have a process of, one of which waits for the other's memory. A migration that
// broke in post-copy is not under way any more, until a run resumes it.
func routes(hosts []string, seen [][]libvirt.DomainStats) map[string]admission.Route {
	type copyOf struct {
		host string
		libvirt.DomainStats
	}

	first := make(map[string]copyOf)
	all := make(map[string]admission.Route)

	for i, found := range seen {
		for _, d := range found {
			if !d.State.Active() {
				continue
			}

			one, twice := first[d.UUID]
			first[d.UUID] = copyOf{hosts[i], d}

			switch {
			case !twice:
			case handedOver(d), one.Busy && !d.Busy:
				all[d.UUID] = admission.Route{From: hosts[i], To: one.host}
			case handedOver(one.DomainStats), d.Busy:
				all[d.UUID] = admission.Route{From: one.host, To: hosts[i]}
			}
		}
	}

	return all
}

// handedOver says that a domain's guest runs elsewhere, and fetches its memory.
func handedOver(d libvirt.DomainStats) bool {
	return d.State == libvirt.Paused && d.Reason == libvirt.ReasonPostcopy
}
