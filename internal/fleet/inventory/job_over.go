package inventory

import (
	"context"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// jobLimit is how long a host is asked whether it runs a job on a domain that is paused for a migration. A QEMU that
// hangs then doesn't hold up the reading of the others.
const jobLimit = 5 * time.Second

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
