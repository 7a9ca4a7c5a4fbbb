package migration

import (
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// Record returns the state as it is kept with the VM: with the id by which the order of the migration is recognized,
// and the name of the run's owner.
func (s State) Record(id, owner string) domain.Migration {
	return domain.Migration{
		ID: id, Owner: owner, SourceHost: s.SourceHost, TargetHost: s.TargetHost,
		Start: s.Start.UTC().Truncate(time.Millisecond), End: s.End.UTC().Truncate(time.Millisecond),
		Phase: s.Phase, Mode: string(s.Mode), Method: s.Method, Transport: s.Transport,
		Failed: s.Failed, FailureReason: s.FailureReason, FailurePlane: s.FailurePlane,
		AbortRequested: s.AbortRequested, AbortStatus: s.AbortStatus, Recovered: s.Recovered,
		Statistics: s.lastNumbers(),
	}
}

// lastNumbers returns the statistics that are true for a finished migration. libvirt's downtime is an estimate until
// libvirt has measured it. A guest that stayed at its source without being paused had no downtime, and the downtime of
// post-copy is never measured.
func (s State) lastNumbers() domain.MigrationStatistics {
	numbers := recordStatistics(s.Statistics)
	if s.Phase == PhaseSucceeded {
		numbers.Remaining, numbers.DiskRemaining = 0, 0
	}
	if s.Failed || s.Mode == PostCopy {
		numbers.Downtime = 0
	}
	return numbers
}

func recordStatistics(j libvirt.Job) domain.MigrationStatistics {
	return domain.MigrationStatistics{
		Elapsed: milliseconds(j.Elapsed), Downtime: milliseconds(j.Downtime), Setup: milliseconds(j.SetupTime),
		DiskTotal: j.Disk.Total, DiskProcessed: j.Disk.Processed, DiskRemaining: j.Disk.Remaining,
		Total: j.Data.Total, Processed: j.Data.Processed, Remaining: j.Data.Remaining,
		Rate: j.MemoryRate, DirtyRate: j.DirtyRate * j.PageSize,
		Iterations: j.Iteration, Throttle: uint64(max(j.AutoConvergeThrottle, 0)), PostCopyRequests: j.PostCopyRequests,
	}
}

func milliseconds(d time.Duration) uint64 { return uint64(max(d.Milliseconds(), 0)) }
