package inventory

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// jobLimit is how long a host is asked whether it runs jobs on domains that are paused for a migration. A QEMU that
// hangs then doesn't hold up the reading of the others.
const jobLimit = 5 * time.Second

// addJobs is withJob for all domains of a host.
func addJobs(ctx context.Context, h *libvirt.Host, all map[string]*Entry) {
	var (
		wg sync.WaitGroup
		mu sync.Mutex
	)

	for _, e := range slices.Collect(maps.Values(all)) {
		if pausedForMigration(&e.Domain) {
			wg.Go(func() {
				asked := withJob(ctx, h, e)

				mu.Lock()
				defer mu.Unlock()

				all[e.UUID] = asked
			})
		}
	}

	wg.Wait()
}

// withJob returns the entry with the answer to whether the host still runs the job that it is paused for, if it is
// paused for one. libvirt also gives this reason to a domain whose memory was restored and that stays paused, for as
// long as it is paused.
func withJob(ctx context.Context, h *libvirt.Host, e *Entry) *Entry {
	if !pausedForMigration(&e.Domain) {
		return e
	}

	ctx, cancel := context.WithTimeout(ctx, jobLimit)
	defer cancel()

	job, err := h.Job(ctx, e.UUID) // the target of a migration returns an error
	over := err == nil && job == nil

	if over { // It may have continued before the job was asked for.
		now, err := h.Domain(ctx, e.UUID)
		over = err == nil && pausedForMigration(now)
	}

	if over == e.jobOver {
		return e
	}

	other := NewEntry(e.Domain)
	other.jobOver = over

	return other
}

func pausedForMigration(d *libvirt.Domain) bool {
	return d.State == libvirt.Paused && d.Reason == libvirt.ReasonMigration
}

// startsFromSaved reports whether a run has started the VM on this host from saved memory, and not noted that it is
// done. Only then is it certain enough that a guest which is paused without a job is no half of a migration, so that it
// may be resumed. A host that doesn't answer may have the other half. The longer ago the start is, the likelier it is
// that a user has resumed the guest and begun a migration by hand: after restartPatience it doesn't count.
func (vm *VM) startsFromSaved() bool {
	mark := vm.Metadata.Starting

	return mark != nil && mark.HostUUID == vm.HostUUID && len(vm.SilentHosts) == 0 &&
		time.Since(mark.Since) <= restartPatience
}
