package migration

import (
	"context"
	"fmt"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/lease"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// sampleJob reads the job, reports it, and carries out the monitor's decision. It returns an error if the migration is
// to be aborted. iteration says whether QEMU has just begun another pass over the memory.
func (r *run) sampleJob(ctx context.Context, iteration bool) error {
	ctx, cancel := lease.CleanupContext(ctx, askTimeout)
	defer cancel()
	job, err := r.Source.Job(ctx, r.VM.UUID)
	if err != nil || job == nil || job.Operation != libvirt.OperationMigrationOut || !job.Type.Active() {
		return nil // It has not begun, or has just ended.
	}
	copying := job.Data.Total > 0
	if !copying && r.state.Statistics.Data.Total > 0 {
		return nil // QEMU has given up, before the job is over. The last numbers stay.
	}
	// QEMU resets the throttle at the end, before the job is over.
	job.AutoConvergeThrottle = max(job.AutoConvergeThrottle, r.state.Statistics.AutoConvergeThrottle)
	if job.Data.Processed != r.state.Statistics.Data.Processed {
		r.progressed = time.Now()
	}
	r.state.Statistics = *job
	if job.Disk.Total > 0 {
		r.diskProgress = job.Disk
	}
	if r.state.Phase == PhasePreparingTarget && (copying || readDomain(ctx, r.Target, r.VM.UUID).waitsForMigration()) {
		r.state.Phase = PhaseTargetReady
		r.log.InfoContext(ctx, "migration", "phase", PhaseTargetReady)
		r.reportProgress()
	}
	if !copying {
		return nil
	}
	if r.began.IsZero() {
		r.began = time.Now()
		r.state.Phase = PhaseRunning
	}
	defer r.reportProgress()
	r.logProgress(ctx, job)
	if r.state.AbortRequested {
		return nil
	}
	stopped := r.monitor.awaitsStop() && readDomain(ctx, r.Source, r.VM.UUID).stoppedForHandover()
	a := r.monitor.decide(sample{
		elapsed: time.Since(r.began), remaining: job.Data.Remaining, disks: job.Disk.Total > 0 && job.Memory.Total == 0,
		rate: job.MemoryRate, iteration: iteration, stopped: stopped,
	})
	if stopped {
		r.state.Mode = r.monitor.mode
	}
	return r.applyAction(ctx, a)
}

func (r *run) reportProgress() {
	if r.Progress != nil {
		r.Progress(r.state)
	}
}

// reportAbandoned reports a migration that libvirt gave up. It reports nothing while libvirt may still run the
// migration, or if the guest has left, because the VM's definition can't be written to then.
func (r *run) reportAbandoned(ctx context.Context) {
	if r.Abandoned == nil || r.state.Phase == PhasePreparingTarget || r.state.Mode == PostCopy {
		return
	}
	ctx, cancel := lease.CleanupContext(ctx, askTimeout)
	defer cancel()
	if going, err := r.sourceMigrating(ctx); err != nil || going {
		return
	}
	if readDomain(ctx, r.Source, r.VM.UUID).runsGuest() {
		r.Abandoned(ctx, r.state)
	}
}

func (r *run) logProgress(ctx context.Context, job *libvirt.Job) {
	if time.Since(r.logged) < logInterval {
		return
	}
	r.logged = time.Now()
	if disk := job.Disk; disk.Total > 0 {
		r.log.InfoContext(ctx, "copying disks", "elapsed", job.Elapsed.Round(time.Millisecond),
			"total", domain.FormatProgress(disk.Total), "remaining", domain.FormatProgress(disk.Remaining), "rate",
			domain.FormatProgress(job.DiskRate))
	}
	r.log.InfoContext(ctx, "migrating", "mode", string(r.state.Mode), "elapsed", job.Elapsed.Round(time.Millisecond),
		"total", domain.FormatProgress(job.Data.Total), "remaining", domain.FormatProgress(job.Data.Remaining), "rate",
		domain.FormatProgress(job.MemoryRate),
		"dirty_rate", domain.FormatProgress(job.DirtyRate*job.PageSize), "iteration", job.Iteration,
		"throttle", job.AutoConvergeThrottle)
}

// applyAction carries out the monitor's decision.
func (r *run) applyAction(ctx context.Context, a action) error {
	uuid := r.VM.UUID
	var err error
	switch a {
	case noAction:
		return nil
	case abortStuck:
		return fmt.Errorf("%w for %v", ErrStuck, *r.Options.ProgressTimeout)
	case abortStalled:
		return fmt.Errorf("%w (%s)", ErrStalled, r.monitor.describeStall())
	case abortLate:
		return fmt.Errorf("%w: it is not completed after %v", ErrLate, r.monitor.timeLimit().Round(time.Millisecond))
	case startPostCopy:
		err = r.Source.StartPostCopy(ctx, uuid)
	case pauseGuest:
		r.paused = true
		err = r.Source.SuspendDomain(ctx, uuid)
	case raiseDowntime:
		err = r.Source.SetMaxDowntime(ctx, uuid, r.monitor.raisedDowntime())
	case hardStop:
		err = r.Source.SetMaxDowntime(ctx, uuid, MaxDowntimeLimit)
	case softStop:
		err = r.Source.SetMaxDowntime(ctx, uuid, r.monitor.maxDowntime())
	}
	if err != nil {
		r.monitor.takeBack()
		r.log.WarnContext(ctx, "migration could not be hurried up", "error", err.Error())
		return nil
	}
	r.state.Mode = r.monitor.mode
	r.log.InfoContext(ctx, "migration takes too long, hurrying it up", "mode", string(r.state.Mode),
		"stalled", r.monitor.hasStalled(), "elapsed", time.Since(r.began).Round(time.Millisecond))
	return nil
}
