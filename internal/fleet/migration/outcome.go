package migration

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/lease"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

const (
	// outcomeTimeout bounds finding out where the VM is after its migration has ended.
	outcomeTimeout = time.Minute
	// settleTime is how long the hosts may take to clean up by themselves. silentTime is how long the run keeps asking a
	// host that doesn't answer: its daemon may be restarting.
	settleTime = 10 * time.Second
	silentTime = 30 * time.Second
	settlePoll = 250 * time.Millisecond
	// abandonedTime is settleTime for a migration that was given up: its guest is paused, and nothing changes by itself.
	abandonedTime = 2 * time.Second
)

// location says where the VM is after its migration.
type location int

const (
	// undecided: the hosts are still cleaning up.
	undecided location = iota
	// arrived: the VM runs on the target, and not at the source. Or its guest has gone off there since: the target has the
	// only definition.
	arrived
	// stayed: the VM is at the source, and nothing runs on the target.
	stayed
	// inPostCopy: the guest was handed over and its target still lacks memory from the source, because post-copy
	// continues or broke.
	inPostCopy
	// onBothHosts: the VM runs on both hosts.
	onBothHosts
	// gone: neither host has the VM.
	gone
	// unknown: a host that may have the VM does not answer.
	unknown
)

// hostView is a host's answer about the VM: a domain, nil if it has none, or an error if it can't be asked.
type hostView struct {
	domain *libvirt.Domain
	err    error
}

func (s hostView) active() bool { return s.domain != nil && s.domain.Active() }

// runsGuest says whether the guest is on this host: it runs, or is paused for a reason other than the migration.
func (s hostView) runsGuest() bool { return s.active() && !s.waitsForMigration() }

// waitsForMigration says whether the guest is paused for the migration: at the source to be handed over, on the target
// for memory.
func (s hostView) waitsForMigration() bool { return s.domain != nil && s.domain.InMigration() }

// stoppedForHandover says whether the guest is paused here to be handed over.
func (s hostView) stoppedForHandover() bool {
	return s.active() && s.domain.State == libvirt.Paused && s.domain.Reason == libvirt.ReasonMigration
}

// lacksMemory says whether the guest runs here and still lacks memory.
func (s hostView) lacksMemory() bool {
	return s.active() && s.domain.State == libvirt.Running && hasPostCopyReason(s)
}

// awaitsMemory says whether the guest runs here, and memory arrives as far as libvirt knows.
func (s hostView) awaitsMemory() bool {
	return s.lacksMemory() && s.domain.Reason == libvirt.ReasonPostcopy
}

// sentAllMemory says whether the process here has ended because the migration was complete.
func (s hostView) sentAllMemory() bool {
	return s.domain != nil && s.domain.SentAllMemory()
}

// switchedOver says whether the guest has left this host in post-copy.
func (s hostView) switchedOver() bool {
	return s.active() && s.domain.State == libvirt.Paused && hasPostCopyReason(s)
}

// failedPostCopy says whether the guest has left this host while the rest of its memory has not.
func (s hostView) failedPostCopy() bool {
	return s.active() && s.domain.State == libvirt.Paused && s.domain.Reason == libvirt.ReasonPostcopyFailed
}

// isVanishing says whether this host has neither a process nor a definition of the VM, and is about to forget it.
func (s hostView) isVanishing() bool {
	return s.domain != nil && !s.domain.Active() && !s.domain.Persistent
}

func hasPostCopyReason(s hostView) bool {
	return s.domain.Reason == libvirt.ReasonPostcopy || s.domain.Reason == libvirt.ReasonPostcopyFailed
}

// classify returns where the VM is, given both hosts' answers.
func classify(source, target hostView) location {
	switch {
	case source.runsGuest() && target.runsGuest():
		return onBothHosts
	case target.lacksMemory(), target.runsGuest() && source.active():
		return inPostCopy
	case target.runsGuest():
		return arrived
	case source.err != nil, target.err != nil && !source.runsGuest():
		return unknown
	case target.active():
		return undecided // Nothing has run there. The target removes it when it notices that the migration is over.
	case source.runsGuest():
		return stayed
	case source.active():
		return undecided // The source lets the guest continue when it notices that the migration is over.
	case source.domain != nil:
		return stayed // It is off.
	case target.domain != nil && target.domain.Persistent:
		return arrived
	default:
		return gone
	}
}

// pollLocation asks both hosts until they agree where the VM is, or the time is over.
func (r *run) pollLocation(ctx context.Context) (where location, source, target hostView) {
	began := time.Now()
	ticker := time.NewTicker(settlePoll)
	defer ticker.Stop()
	for {
		var both sync.WaitGroup
		both.Go(func() { source = readDomain(ctx, r.Source, r.VM.UUID) })
		both.Go(func() { target = readDomain(ctx, r.Target, r.VM.UUID) })
		both.Wait()
		where = classify(source, target)
		settled := where == arrived || where == stayed && target.err == nil || where == onBothHosts ||
			where == inPostCopy && source.failedPostCopy()
		patience := settleTime
		if where == unknown && !r.state.AbortRequested { // A user who aborts must not wait for long.
			patience = silentTime
		}
		if r.waitGivenUp {
			patience = abandonedTime
		}
		settled = settled && !source.isVanishing() && !target.isVanishing()
		if settled || time.Since(began) > patience || ctx.Err() != nil {
			return where, source, target
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
}

// locate returns where the VM is. It asks within a timeout of its own, even when ctx has ended.
func (r *run) locate(ctx context.Context) (where location, source, target hostView) {
	ctx, cancel := lease.CleanupContext(ctx, outcomeTimeout)
	defer cancel()
	return r.pollLocation(ctx)
}

func readDomain(ctx context.Context, h *libvirt.Host, uuid string) hostView {
	d, err := h.Domain(ctx, uuid)
	if errors.Is(err, libvirt.ErrNotFound) {
		return hostView{}
	}
	return hostView{domain: d, err: err}
}

// conclude finds out where the VM is, cleans up, and returns the result. The hosts' answers count, not the return value
// of the migration: a migration that was given up may have succeeded.
func (r *run) conclude(ctx context.Context, failure error) (State, error) {
	ctx, cancel := lease.CleanupContext(ctx, outcomeTimeout)
	defer cancel()
	where, source, target := r.pollLocation(ctx)
	if where == undecided && !r.continuesUnmonitored(ctx, failure) {
		where, source, target = r.cleanUpHosts(ctx, source, target)
	}
	r.state.Completed, r.state.End = true, time.Now()
	defer r.reportProgress()
	if where == arrived {
		state := r.recordSuccess(ctx, failure)
		r.removeVariables(ctx, source)
		return state, nil
	}
	r.resumePaused(ctx, where, source, target)
	left := r.removeImages(ctx, where, target)
	r.state.Failed, r.state.Phase = true, PhaseFailed
	if r.state.AbortRequested {
		r.state.AbortStatus = AbortSucceeded
		if where != stayed {
			r.state.AbortStatus = AbortFailed
		}
	}
	r.state.FailurePlane = PlaneData
	if r.began.IsZero() {
		r.state.FailurePlane = PlaneControl
	}
	lost := lease.Lost(ctx)
	r.state.FailureReason = r.failureReason(lost, failure)
	if errors.Is(failure, lease.ErrLost) {
		lost = nil // It is reported already.
	}
	err := &FailedError{
		State: r.state, Where: r.describeLocation(where, source, target) + r.describeLeft(left),
		Left: append(left, r.unanswered...), Err: errors.Join(r.verdict, lost, failure),
	}
	r.log.ErrorContext(ctx, "migration failed", "error", err.Error())
	return r.state, err
}

// recordSuccess records the result of a successful migration.
func (r *run) recordSuccess(ctx context.Context, failure error) State {
	r.state.Phase = PhaseSucceeded
	if r.state.AbortRequested {
		r.state.AbortStatus = AbortFailed
	}
	if failure != nil {
		r.log.WarnContext(ctx, "the VM arrived although its migration reported a failure", "error", failure.Error())
	}
	if job, err := r.Target.CompletedJob(ctx, r.VM.UUID); err == nil && job != nil {
		// Only the source knows how much it throttled the guest.
		job.AutoConvergeThrottle = r.state.Statistics.AutoConvergeThrottle
		r.state.Statistics = job.Within(r.state.End.Sub(r.state.Start))
	}
	if r.diskProgress.Total == 0 { // They were copied after the last sample.
		bytes := copiedBytes(r.copies, r.Options.chooseIncremental(r.copies))
		r.diskProgress = libvirt.Transfer{Total: bytes, Processed: bytes}
	}
	if s := &r.state.Statistics; s.Disk.Total == 0 && r.diskProgress.Total > 0 {
		// The target only knows about memory. All that remained at the last report has arrived by now.
		s.Disk = libvirt.Transfer{Total: r.diskProgress.Total, Processed: r.diskProgress.Processed + r.diskProgress.Remaining}
	}
	r.log.InfoContext(ctx, "migration succeeded", "method", r.state.Method, "mode", string(r.state.Mode),
		"elapsed", r.state.End.Sub(r.state.Start).Round(time.Millisecond), "downtime", r.state.Statistics.Downtime,
		"processed", domain.FormatProgress(r.state.Statistics.Data.Processed), "iterations", r.state.Statistics.Iteration)
	return r.state
}

// cleanUpHosts cleans up where the hosts did not. If the VM runs at the source, it removes the domain on the target, in
// which nothing has run and which waits for memory in vain. If the VM is paused at the source, it lets the VM continue.
func (r *run) cleanUpHosts(ctx context.Context, source, target hostView) (location, hostView, hostView) {
	switch {
	case source.runsGuest() && target.waitsForMigration():
		r.log.WarnContext(ctx, "removing what waits on the target for the migration that is over")
		if err := r.Target.DestroyDomain(ctx, r.VM.UUID, true); err != nil && !errors.Is(err, libvirt.ErrNotFound) {
			r.log.WarnContext(ctx, "not removed", "error", err.Error())
		}
	case source.stoppedForHandover() && target.domain == nil && target.err == nil:
		r.log.WarnContext(ctx, "the guest is paused at the source for the migration that is over, resuming it")
		if _, err := FinishSwitchover(ctx, r.Source, r.Target, r.VM.UUID); err != nil {
			r.log.ErrorContext(ctx, "the guest was not resumed", "error", err.Error())
		}
	default:
		return classify(source, target), source, target
	}
	return r.pollLocation(ctx)
}

// resumePaused resumes the guest that the monitor paused for the migration, unless the guest may run on the target.
func (r *run) resumePaused(ctx context.Context, where location, source, target hostView) {
	paused := source.active() && source.domain.State == libvirt.Paused
	if !r.paused || !paused || where != stayed || target.err != nil || r.VM.State == libvirt.Paused {
		return
	}
	if err := r.Source.ResumeDomain(ctx, r.VM.UUID); err != nil {
		r.log.ErrorContext(ctx, "the guest was paused for the migration and does not resume", "error", err.Error())
	}
}

func (r *run) failureReason(lost, failure error) string {
	switch {
	case lost != nil:
		return "it was given up: " + lost.Error()
	case r.verdict != nil:
		return r.verdict.Error() + " and was aborted"
	case r.state.AbortRequested && errors.Is(failure, context.DeadlineExceeded):
		return "it was aborted because its timeout is over"
	case r.state.AbortRequested:
		return "it was aborted"
	case failure != nil:
		return failure.Error()
	default:
		return "libvirt reported success, but the VM does not run on the target"
	}
}

// describeLocation returns a text about where the VM is now.
func (r *run) describeLocation(where location, source, target hostView) string {
	from, to := r.state.SourceHost, r.state.TargetHost
	switch where {
	case stayed:
		text := fmt.Sprintf("the VM is on host %q (%s)", from, source.domain.State)
		if target.err != nil {
			text += fmt.Sprintf(", and host %q can't be asked what it has", to)
		}
		return text
	case onBothHosts:
		return "it runs on both hosts: find out which copy is the right one and destroy the other"
	case inPostCopy:
		if source.sentAllMemory() {
			return fmt.Sprintf("the VM is on host %q (%s), and host %q has sent all of its memory (%s); nothing was removed",
				to, target, from, source)
		}
		if source.err == nil && !source.active() {
			return fmt.Sprintf("the VM is on host %q (%s) and lacks memory that is gone from host %q (%s); nothing was "+
				"removed", to, target, from, source)
		}
		return fmt.Sprintf("the VM is on host %q (%s) and lacks memory that is on host %q (%s); nothing was removed", to,
			target, from, source)
	case gone:
		return "neither host has the VM any more"
	case undecided:
		return fmt.Sprintf("the VM is paused for the migration: host %q has it as %s, host %q as %s; nothing was "+
			"removed", from, source, to, target)
	default:
		return fmt.Sprintf("it is unknown where the VM is: host %q has it as %s, host %q as %s", from, source, to,
			target)
	}
}

// describeLeft returns a text about the files that remain on the target of those that were made there.
func (r *run) describeLeft(images []string) string {
	if len(images) == 0 {
		return ""
	}
	return fmt.Sprintf("; what was made for it is left on host %q: %s", r.state.TargetHost, strings.Join(images, ", "))
}

// String returns the host's answer as text.
func (s hostView) String() string {
	switch {
	case s.err != nil:
		return "unknown (" + s.err.Error() + ")"
	case s.domain == nil:
		return "absent"
	default:
		return fmt.Sprintf("%s (%s)", s.domain.State, s.domain.Reason)
	}
}
