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

// trafficTimeout bounds the question to each host which VMs are moving. A host that doesn't answer in time counts as
// having none, so the timeout is long enough for a slow host.
const trafficTimeout = 15 * time.Second

// trafficNow returns which VMs are moving between hosts of the fleet, by UUID, whichever tool moves them. Such a VM has
// a QEMU process on two hosts, and a job on its source. A migration that a killed run left behind has no job, unless
// QEMU continues by itself. trafficNow makes one call per host, which waits for no VM, and one call per moving VM.
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
				mv.log.DebugContext(ctx, "which VMs move from or to a host is unknown", "host", h.Name, "error", err.Error())
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

// routes finds the VMs that have a QEMU process on two hosts, one of which waits for memory from the other. A migration
// that broke in post-copy doesn't count until a run resumes it.
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
			case switchedOver(d), one.Busy && !d.Busy:
				all[d.UUID] = admission.Route{From: hosts[i], To: one.host}
			case switchedOver(one.DomainStats), d.Busy:
				all[d.UUID] = admission.Route{From: one.host, To: hosts[i]}
			}
		}
	}

	return all
}

// switchedOver says whether a domain's guest runs on another host, and fetches its memory.
func switchedOver(d libvirt.DomainStats) bool {
	return d.State == libvirt.Paused && d.Reason == libvirt.ReasonPostcopy
}
