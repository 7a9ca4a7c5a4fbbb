package migration

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/lease"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

const (
	// DefaultRecoveryTimeout is how long to keep trying to resume a migration that broke in post-copy. Waiting loses
	// nothing: the guest stops as soon as it needs memory that isn't there yet.
	DefaultRecoveryTimeout = 5 * time.Minute
	// resumeTimeout bounds one attempt to resume. An attempt that takes longer continues, and is checked again.
	resumeTimeout = 10 * time.Minute
	// recoverInterval and recoverIntervalLimit are the pauses before attempts. The threads of a QEMU notice a lost
	// connection one after another. If QEMU is told to resume before the last of them has noticed, it loses the new
	// connection with the old one and waits for ever (QEMU 7.2). So even the first attempt has to wait.
	recoverInterval      = 3 * time.Second
	recoverIntervalLimit = 15 * time.Second
)

// postCopyStuckAfter is how long the source may report a failed post-copy while its migration doesn't end.
const postCopyStuckAfter = 30 * time.Second

// errPostCopyStuck ends a migration that libvirt doesn't end.
var errPostCopyStuck = errors.New("the migration broke in post-copy, and libvirt did not notice on both hosts")

// postCopyStuck says whether the migration broke in post-copy without ending. The target's libvirt then waits for QEMU
// to report the start of the guest, which QEMU can't do once the connection broke in the first moments (QEMU 7.2). It
// also notes whether the guest has left its source.
func (r *run) postCopyStuck(ctx context.Context) bool {
	if r.state.Mode != PostCopy {
		return false
	}
	ctx, cancel := lease.CleanupContext(ctx, askTimeout)
	defer cancel()
	source := readDomain(ctx, r.Source, r.VM.UUID)
	r.switchedOver = r.switchedOver || source.switchedOver()
	switch {
	case !source.failedPostCopy():
		r.postCopyFailedAt = time.Time{}
	case r.postCopyFailedAt.IsZero():
		r.postCopyFailedAt = time.Now()
	}
	return !r.postCopyFailedAt.IsZero() && time.Since(r.postCopyFailedAt) > postCopyStuckAfter
}

// ErrIrrecoverable means that the guest was handed over to the target, and that the part of its memory that was still
// at the source could not be fetched, or that the target lost the other part. Nothing was removed: the parts on the two
// hosts together are the VM.
var ErrIrrecoverable = errors.New("the migration broke in post-copy and could not be resumed")

// ErrMemoryLost comes with an ErrIrrecoverable where one of the two parts of the guest's memory is certainly gone.
var ErrMemoryLost = errors.New("a part of the guest's memory is lost")

// ErrPostCopyBroken means that the migration broke in post-copy and was not resumed before the run was told to stop, or
// that a host refused to resume it with these options. It may be resumed later.
var ErrPostCopyBroken = errors.New("the migration broke in post-copy and is not resumed yet")

// ErrPostCopyOpen means that the time was over while the guest ran on the target and a part of its memory was at the
// source, without a sign that the migration broke, or while a host that would tell did not answer. The migration may
// continue by itself, or be resumed later.
var ErrPostCopyOpen = errors.New("the migration is in post-copy and has not ended yet")

// ErrAllSent means that the source has sent all of the guest's memory, and that the target's libvirt has not noticed
// it. Nothing is lost, and nothing is left to resume.
var ErrAllSent = errors.New("the source has sent all of the guest's memory, and the target has not reported it yet")

// errRunLost is the failure of a migration whose run has ended.
var errRunLost = errors.New("the run that moved it ended while it was broken")

// ResumePostCopy resumes a migration that broke in post-copy and that no run manages any more, as Run does with its
// own. It uses the VM's identity, and the state that the guest was in before. transport is the transport that was used,
// or was to be used. "" or TransportAuto tries all that are possible.
func ResumePostCopy(ctx context.Context, request Request, transport string) (State, error) {
	// The migration was in post-copy, whatever is allowed now.
	request.Options.AllowPostCopy, request.Options.Transport = new(true), cmp.Or(transport, TransportAuto)
	r := newRun(request)
	r.stopped = ctx.Done()
	r.monitor = newMonitor(r.Options, 0, false)
	r.monitor.mode, r.state.Mode, r.state.Phase, r.began = PostCopy, PostCopy, PhaseRunning, time.Now()
	err := r.openTunnels()
	defer r.closeTunnels(ctx)
	if err == nil {
		r.state.Transport = r.transportOrder(ctx)[0]
		err = r.resumePostCopy(ctx, errRunLost)
	}
	defer func() { r.route.close(ctx) }()
	return r.conclude(ctx, err)
}

// resumePostCopy resumes a migration that broke after the switch to post-copy. It tries until the VM has arrived, can't
// arrive any more, or the recovery timeout is over. The timeout doesn't end while memory still arrives. It returns nil
// when the VM has arrived. Otherwise it returns the failure that it was given, an ErrIrrecoverable, or, where ctx ended
// before the time was over, an ErrPostCopyBroken or ErrPostCopyOpen, or an ErrAllSent. No attempt begins once ctx has
// ended: the record stays open for the next run. It stays open, too, if an attempt is refused as unsupported, which no
// waiting changes.
//
// Only the target's answer counts. If libvirt has lost the client that started the migration, it reports the migration
// as failed, while QEMU continues by itself and succeeds. libvirt then refuses to resume it (ErrOperationInvalid), and
// a later attempt finds that the VM has arrived. libvirt also refuses until both QEMUs have noticed that the connection
// is broken. A QEMU that no longer hears anything notices it only when its kernel stops trying, after a quarter of an
// hour by default.
func (r *run) resumePostCopy(ctx context.Context, failure error) error {
	p := recovery{deadline: time.Now().Add(*r.Options.RecoveryTimeout)}
	transports := r.resumeTransports()
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval, pause.RandomizationFactor = recoverInterval, recoverIntervalLimit, 0
	resumed := false
	var remaining uint64
	for {
		p.where, p.source, p.target = r.locate(ctx)
		if p.source.failedPostCopy() && r.stillCopying(ctx, &remaining) {
			p.deadline = time.Now().Add(*r.Options.RecoveryTimeout)
		}
		p.inPostCopy, p.failure = r.state.Mode == PostCopy, failure
		switch step, err := p.nextStep(ctx); {
		case err != nil:
			return err
		case step == resumeArrived:
			r.state.Recovered = resumed
			return nil
		case step == resumeEndSource:
			p.attempt++
			r.endSource(ctx)
		case step == resumeSettle:
			p.settled = true
		case step == resumeTry:
			p.attempt++
			resumed = resumed || r.pausedByQEMU(ctx)
			carrier := r.state.Transport
			err := r.tryResume(ctx, p.attempt, transports[0])
			if err == nil {
				resumed = true
				continue
			}
			failure = err
			if errors.Is(err, libvirt.ErrOperationInvalid) {
				r.state.Transport = carrier // QEMU continues the migration there.
			} else {
				resumed = true
				transports = append(transports[1:], transports[0])
			}
		}
		select {
		case <-time.After(pause.NextBackOff()):
		case <-ctx.Done():
		}
	}
}

// recovery is what resumePostCopy knows before its next step.
type recovery struct {
	where          location
	source, target hostView
	// inPostCopy says that the migration had switched to post-copy, as far as the run knows.
	inPostCopy bool
	// failure is the latest reason why the VM has not arrived.
	failure error
	// deadline is when to stop trying.
	deadline time.Time
	// attempt counts the attempts. settled says that the run has waited for both QEMUs to notice the lost connection.
	attempt int
	settled bool
}

// resumeStep is the next step of a recovery.
type resumeStep int

const (
	// resumeWait: only time helps, such as until a host answers.
	resumeWait resumeStep = iota
	// resumeArrived: the VM has arrived.
	resumeArrived
	// resumeEndSource: the guest has all of its memory on the target, so the source's process can go.
	resumeEndSource
	// resumeSettle: both QEMUs get time to notice that the connection is lost.
	resumeSettle
	// resumeTry: try to resume.
	resumeTry
)

// nextStep decides how to continue. An error ends the recovery.
func (p recovery) nextStep(ctx context.Context) (resumeStep, error) {
	source, target, broken := p.source, p.target, p.source.failedPostCopy()
	switch {
	case lease.Lost(ctx) != nil:
		return 0, fmt.Errorf("%w: %w", lease.Lost(ctx), p.failure)
	case p.where == arrived:
		return resumeArrived, nil
	case broken && target.err == nil && !target.active():
		return 0, fmt.Errorf("%w, as its target is gone (%w): %w", ErrIrrecoverable, ErrMemoryLost, p.failure)
	case p.where != inPostCopy && (p.where != unknown || !p.inPostCopy):
		return 0, p.failure
	// Without an answer from the target, the VM may have arrived. A target that hasn't noticed a failure may be about to
	// arrive: the source ends first.
	case source.err == nil && !source.active() && target.err == nil && !source.sentAllMemory() &&
		(!target.awaitsMemory() || time.Now().After(p.deadline)):
		return 0, fmt.Errorf("%w, as its source is gone (%w): %w", ErrIrrecoverable, ErrMemoryLost, p.failure)
	case source.sentAllMemory() && target.lacksMemory() && (ctx.Err() != nil || time.Now().After(p.deadline)):
		return 0, fmt.Errorf("%w: %w", ErrAllSent, p.failure)
	case p.attempt > 0 && errors.Is(p.failure, libvirt.ErrUnsupported): // The connection may be intact.
		return 0, fmt.Errorf("%w: %w", ErrPostCopyBroken, p.failure)
	case time.Now().After(p.deadline) && (p.attempt > 0 || !broken || target.err != nil):
		if broken {
			return 0, fmt.Errorf("%w: %w", ErrIrrecoverable, p.failure)
		}
		return 0, p.failure
	case broken && target.hasAllMemory() && (p.attempt == 0 || ctx.Err() == nil):
		return resumeEndSource, nil
	case ctx.Err() != nil && broken:
		return 0, fmt.Errorf("%w: %w", ErrPostCopyBroken, p.failure)
	case ctx.Err() != nil: // In post-copy, or one of the hosts doesn't answer any more.
		return 0, fmt.Errorf("%w: %w", ErrPostCopyOpen, p.failure)
	case broken && target.err == nil && !p.settled:
		return resumeSettle, nil
	case broken && target.err == nil:
		return resumeTry, nil
	default:
		return resumeWait, nil
	}
}

// endSource ends the source's process once the guest has all of its memory on the target.
func (r *run) endSource(ctx context.Context) {
	ctx, cancel := lease.CleanupContext(ctx, askTimeout)
	defer cancel()
	if _, err := FinishSwitchover(ctx, r.Source, r.Target, r.VM.UUID); err != nil {
		r.log.WarnContext(ctx, "the source's process was not ended", "error", err.Error())
	}
}

// stillCopying says whether less remains to be copied than at the last call: a migration that libvirt reports as broken
// then continues.
func (r *run) stillCopying(ctx context.Context, remaining *uint64) bool {
	ctx, cancel := lease.CleanupContext(ctx, askTimeout)
	defer cancel()
	job, err := r.Source.Job(ctx, r.VM.UUID)
	if err != nil || job == nil || !job.Type.Active() {
		return false
	}
	before := *remaining
	*remaining = job.Data.Remaining
	return before > 0 && *remaining < before
}

// pausedByQEMU says whether QEMU itself waits for the migration to be resumed. Then an attempt that libvirt reports as
// refused may have resumed it all the same: without one, the VM doesn't arrive.
func (r *run) pausedByQEMU(ctx context.Context) bool {
	ctx, cancel := lease.CleanupContext(ctx, askTimeout)
	defer cancel()
	said, err := r.Source.MigrationStatus(ctx, r.VM.UUID)
	if err != nil {
		r.log.DebugContext(ctx, "QEMU's state of the migration is unknown", "error", err.Error())
	}
	return err == nil && said == libvirt.MigrationPostCopyPaused
}

// tryResume tries once to resume. The end of ctx doesn't abort it, because the guest can't return to the source. From
// then on the run waits while memory arrives.
func (r *run) tryResume(ctx context.Context, attempt int, transport string) error {
	r.log.WarnContext(ctx, "migration broke in post-copy, resuming it", "attempt", attempt, "transport", transport)
	ctx, cancel := lease.CleanupContext(ctx, resumeTimeout)
	defer cancel()
	r.state.Mode, r.state.Transport, r.resuming = PostCopy, transport, true
	err := r.migrateOver(ctx, transport)
	if err != nil {
		r.log.WarnContext(ctx, "migration not resumed", "attempt", attempt, "transport", transport, "error", err.Error())
	}
	return err
}

// resumeTransports returns the transports over which a broken migration may be resumed, the previous one first. An
// encrypted migration stays encrypted, and QEMU resumes with the encryption that it began with.
func (r *run) resumeTransports() []string {
	used := r.state.Transport
	switch {
	case used == TransportDirect && r.sourceTunnel != nil && r.targetTunnel != nil:
		return []string{used, TransportSSHRelay}
	case used == TransportSSHRelay && r.Options.Transport == TransportAuto:
		return []string{used, TransportDirect}
	default:
		return []string{used}
	}
}
