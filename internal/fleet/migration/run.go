package migration

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

const (
	// pollInterval and logInterval are KubeVirt's.
	pollInterval = 400 * time.Millisecond
	logInterval  = 4 * time.Second
	// askTimeout bounds one question or order to a host while a migration runs.
	askTimeout = 10 * time.Second
	// standstill is how long a migration in post-copy may bring no memory once the run's time is over. It leaves time
	// to ask a host again that misses one or two questions.
	standstill = 3 * askTimeout
)

// Request is one live migration. The caller runs CheckHosts before.
type Request struct {
	// VM is the VM as Inspect found it.
	VM             VM
	Source, Target *libvirt.Host
	// Address is the name or IP address at which the target's QEMU accepts migrations. "" leaves it to the target's
	// libvirt.
	Address string
	// PeerURI is where the source's libvirt reaches the target's, as Options.PeerToPeer requires. "" means nowhere.
	PeerURI string
	// SourceTunnel and TargetTunnel make the tunnels that TransportSSHRelay requires. Nil means that the host is not
	// reached over SSH.
	SourceTunnel, TargetTunnel func() (Tunnel, error)

	Options Options
	Logger  *slog.Logger
	// Ahead has connections that were opened for the migration. It may be nil.
	Ahead *libvirt.MigrationAhead
	// Starting is called right before libvirt is told to migrate, once for each transport that is tried; not before a
	// migration that broke in post-copy is resumed. An error ends the migration. It may be nil.
	Starting func() error
	// Creating is called with the files that Run is about to make on the target for the copied disks, before Run makes
	// the first. An error ends the migration. It may be nil.
	Creating func(ctx context.Context, intended []domain.Copy) error
	// Created is called with the files on the target that belong to the migration, each once, before the migration begins,
	// while the VM's definition can still be changed. It is called for each medium before anything is copied into it,
	// then for all images that were made for the copied disks, and for the files of firmware variables that libvirt
	// will make. An error ends the migration. It may be nil.
	Created func(ctx context.Context, s State, files []string) error
	// Progress is called whenever there is something new. It may be nil, and must not block.
	Progress func(State)
	// Abandoned is called with the progress of a migration that libvirt gave up while the guest runs at the source: from
	// then on no job reports it, and where the VM is has yet to be found out. It is not called in post-copy. It may be
	// nil.
	Abandoned func(ctx context.Context, s State)

	// stallWindow replaces stallProgressTimeout in a test, which can't wait that long. 0 means stallProgressTimeout.
	stallWindow time.Duration
}

// The monitor's reasons to abort a migration.
var (
	// ErrStuck means that what remained to be copied did not shrink.
	ErrStuck = errors.New("the migration made no progress")
	// ErrStalled means that the stall detector found that the guest wrote faster than memory could be copied.
	ErrStalled = errors.New("the migration stalled")
	// ErrLate means that the migration was not completed in time.
	ErrLate = errors.New("the migration took too long")
)

// Run moves a running VM and returns when that has ended. It returns nil if the VM runs on the target, even if libvirt
// reported an error, and otherwise a *FailedError. When ctx ends Run aborts the migration, which takes seconds. If it
// can no longer be aborted, because the guest is on the target already, Run waits for its end. For a VM that stayed at
// its source Run leaves no copy on the target, and no image that it made there.
func Run(ctx context.Context, request Request) (State, error) {
	r := newRun(request)
	r.stopped = ctx.Done()
	err := r.openTunnels()
	defer r.closeTunnels(ctx)
	if err == nil {
		err = r.prepareTarget(ctx)
	}
	if err == nil {
		err = r.tryTransports(ctx)
	}
	if ctx.Err() != nil && !r.state.AbortRequested {
		// ctx ended in the same moment, or before the migration began and could notice.
		r.requestAbort(ctx, stopReason(ctx))
	}
	if err != nil {
		r.reportAbandoned(ctx)
	}
	if err != nil && *r.Options.AllowPostCopy {
		err = r.resumePostCopy(ctx, err)
	}
	defer func() { r.route.close(ctx) }()
	return r.conclude(ctx, err)
}

// prepareTarget makes what the target lacks, and determines how much there is to copy.
func (r *run) prepareTarget(ctx context.Context) error {
	unshared, err := r.probingPreflight().verifyShared(ctx)
	if err != nil {
		return err
	}
	if len(unshared) > 0 {
		return &BlockedError{Blockers: unshared}
	}
	if err := r.makeImages(ctx); err != nil {
		return err
	}
	if err := r.verifyNoDiskLeft(); err != nil {
		return err
	}
	r.noteNVRAM(ctx)
	if err := r.noteCreated(ctx, slices.Concat(r.images, r.nvramFiles)); err != nil {
		return err
	}
	facts := r.VM.Mobility
	_, disks := copySizes(r.copies)
	r.monitor = newMonitor(r.Options, facts.Memory+disks, facts.VFIO)
	if d := r.monitor.detector; d != nil && r.stallWindow > 0 {
		d.window = r.stallWindow
	}
	r.log.InfoContext(ctx, "migration started", "method", r.state.Method, "budget", r.monitor.budget)
	return nil
}

// noteCreated calls Created with those of the files that Created has not been called with yet.
func (r *run) noteCreated(ctx context.Context, files []string) error {
	made := slices.DeleteFunc(slices.Clone(files), func(file string) bool { return slices.Contains(r.noted, file) })
	if r.Created == nil || len(made) == 0 {
		return nil
	}
	r.noted = append(r.noted, made...)
	return r.Created(ctx, r.state, made)
}

// run is one migration under way.
type run struct {
	Request
	log     *slog.Logger
	monitor *monitor
	state   State
	// began is when the copying began, logged when progress was last logged.
	began, logged time.Time
	// verdict is why the monitor aborted the migration, nil if it did not.
	verdict error
	// paused says whether the guest was ordered to pause, even if the order failed.
	paused bool
	// postCopyFailedAt is when the source was first seen to have failed in post-copy, while the migration did not end.
	postCopyFailedAt time.Time
	// resuming says whether this run resumes a migration that broke in post-copy.
	resuming bool
	// stopped is closed when the run is cancelled or its time is over, which is first noticed at stoppedAt. From then
	// on the run waits for a migration in post-copy while it brings memory, last at progressed, and gives it up when no
	// more memory arrives.
	stopped               <-chan struct{}
	stoppedAt, progressed time.Time
	// switchedOver says whether the source was seen to have handed the guest over, which may happen long after the switch
	// to post-copy was ordered. Until then the migration can be aborted.
	switchedOver bool
	// waitGivenUp says whether the run no longer waits for a migration in post-copy that brings no memory.
	waitGivenUp bool
	// copies are the disks that are copied, images the files made on the target, noted those that Created was called with.
	copies        []DiskCopy
	images, noted []string
	// unanswered are files that the target may create yet. They are recorded as files that the move was about to make.
	unanswered []string
	// targetXML and persistentXML are the definitions for the target, "" for those of the source. They have secrets.
	targetXML, persistentXML string
	// nvramFiles are the files of firmware variables that the target did not have before.
	nvramFiles []string
	// diskProgress is the last reported progress of copying the disks.
	diskProgress libvirt.Transfer
	// sourceTunnel and targetTunnel are nil where no relay is possible. route is the route in use.
	sourceTunnel, targetTunnel Tunnel
	route                      route
}

func newRun(request Request) *run {
	if request.Logger == nil {
		request.Logger = slog.New(slog.DiscardHandler)
	}
	request.Options = request.Options.WithDefaults()
	return &run{
		Request: request,
		log: request.Logger.With("name", request.VM.Name, "uuid", request.VM.UUID,
			"source", request.Source.Name(), "target", request.Target.Name()),
		state: State{
			SourceHost: request.Source.Name(), TargetHost: request.Target.Name(), Start: time.Now(),
			Phase: PhasePreparingTarget, Method: MethodLive, Mode: PreCopy,
		},
	}
}

// probingPreflight returns a preflight that looks at the files themselves.
func (r *run) probingPreflight() preflight {
	return preflight{vm: r.VM, source: r.Source, target: r.Target, options: r.Options, probeFiles: true}
}

// migrate runs the migration and watches it until it has ended.
func (r *run) migrate(ctx context.Context) error {
	listen, stop := context.WithCancel(ctx)
	defer stop()
	iterations := r.subscribeIterations(listen)
	if d := r.monitor.firstDowntime(); d != nil && !r.resuming {
		if err := r.Source.SetMaxDowntime(ctx, r.VM.UUID, *d); err != nil {
			return err
		}
	}
	r.postCopyFailedAt, r.progressed = time.Time{}, time.Now()
	moving, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	ended, giveUp := make(chan error, 1), make(chan struct{})
	go func() { ended <- r.migrateAndWait(moving, giveUp) }()

	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	cancelled := ctx.Done()
	for {
		iteration := false
		select {
		case err := <-ended:
			return err
		case <-cancelled:
			cancelled = nil
			r.requestAbort(ctx, stopReason(ctx))
			continue
		case e, listening := <-iterations:
			if !listening {
				iterations = nil
			}
			if iteration = e.Kind == libvirt.EventMigrationIteration; !iteration {
				continue
			}
		case <-ticker.C:
			if r.postCopyStuck(ctx) {
				abort(errPostCopyStuck)
			}
			if !r.waitGivenUp && r.postCopyStalled() {
				r.log.WarnContext(ctx, "the time is over and no memory comes, giving up the wait", "mode", string(r.state.Mode))
				r.waitGivenUp = true
				close(giveUp)
			}
		}
		if why := r.sampleJob(ctx, iteration); why != nil && r.verdict == nil && !r.state.AbortRequested {
			r.verdict = why
			r.requestAbort(ctx, why.Error())
			abort(why)
		}
	}
}

// postCopyStalled says whether the migration, which can't be aborted in post-copy, has copied nothing since the run's
// time was over, or since it last brought memory after that.
func (r *run) postCopyStalled() bool {
	select {
	case <-r.stopped:
	default:
		return false
	}
	if r.stoppedAt.IsZero() {
		r.stoppedAt = time.Now()
	}
	return r.switchedOver && min(time.Since(r.stoppedAt), time.Since(r.progressed)) > standstill
}

// subscribeIterations subscribes to the events that drive the stall detector. Without the events there is no detector.
func (r *run) subscribeIterations(ctx context.Context) <-chan libvirt.Event {
	if r.monitor.detector == nil || r.resuming {
		return nil
	}
	events, err := r.Source.Subscribe(ctx, r.VM.UUID)
	if err != nil {
		r.monitor.detector = nil
		r.log.WarnContext(ctx, "no stall detector without the source's events", "error", err.Error())
		return nil
	}
	return events
}

// stopReason returns why a run stops whose context has ended: a user cancelled it, its time is over, or it lost its
// lease.
func stopReason(ctx context.Context) string {
	switch cause := context.Cause(ctx); cause {
	case context.Canceled: //nolint:errorlint // A wrapping error says more.
		return "cancelled"
	case context.DeadlineExceeded:
		return "its time is over"
	default:
		return cause.Error()
	}
}

// requestAbort notes that the migration is being aborted, which libvirt.Host.Migrate does when its context ends.
func (r *run) requestAbort(ctx context.Context, why string) {
	r.state.AbortRequested, r.state.AbortStatus = true, AbortAborting
	r.log.WarnContext(ctx, "aborting migration", "reason", why, "mode", string(r.state.Mode))
	r.reportProgress()
}

// migrateAndWait has libvirt move the VM, and returns when that has ended. A migration that the source's libvirt
// manages continues when the connection that ordered it is lost. migrateAndWait then waits for it, until giveUp is
// closed.
func (r *run) migrateAndWait(ctx context.Context, giveUp <-chan struct{}) error {
	err := r.Source.Migrate(ctx, r.VM.UUID, r.Target, r.migrateParameters(giveUp))
	if *r.Options.PeerToPeer && errors.Is(err, libvirt.ErrUnreachable) {
		r.awaitPeerToPeer(ctx, giveUp)
	}
	return err
}

func (r *run) migrateParameters(giveUp <-chan struct{}) libvirt.Migration {
	o := r.Options
	m := libvirt.Migration{
		Unsafe: len(r.Options.declaredSharedDisks(r.VM.Mobility)) > 0, // See verifyNoDiskLeft.
		URI:    r.migrationURI(), TLS: r.route.transport == TransportTLS,
		Paused:       r.VM.State == libvirt.Paused,
		Transient:    r.VM.Transient,
		AutoConverge: *o.AllowAutoConverge, PostCopy: *o.AllowPostCopy, PostCopyResume: r.resuming,
		Bandwidth: *o.Bandwidth, ParallelConnections: *o.ParallelConnections,
		GiveUp: giveUp, Ahead: r.Ahead,
	}
	if o.Compression != CompressionNone {
		m.Compression = o.Compression
	}
	if *o.PeerToPeer {
		m.PeerURI = r.PeerURI
	}
	if len(r.copies) > 0 && !r.resuming { // The disks are there before the guest is handed over.
		m.NonSharedIncremental = r.Options.chooseIncremental(r.copies)
		m.NonSharedFull = !m.NonSharedIncremental
		m.MigrateDisks, m.DisksURI = diskTargets(r.copies), r.route.disksURI()
		m.TargetXML, m.PersistentXML = r.targetXML, r.persistentXML
	}
	return m
}
