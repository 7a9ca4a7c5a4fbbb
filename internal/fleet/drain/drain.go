package drain

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/admission"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/hostrecord"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/lease"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/records"
)

// Drain requests that a host be drained.
type Drain struct {
	// Host is the host's name, ID the id of the maintenance that cordons it, Why the reason, for users to read.
	Host, ID, Why string
	// Steps are followed exactly. Nil: the drain computes them.
	Steps []evacuation.Step
	// MoveStopped also moves VMs that are off.
	MoveStopped bool
}

// drainRun is one Drain in progress.
type drainRun struct {
	Drain
	drainer *Drainer
	host    *inventory.Host
	turn    *turn

	// since is when the drain began. prepare sets in and gone, which don't change afterwards.
	since time.Time
	in    evacuation.Input
	// gone are VMs that left in an earlier drain that was killed. They may still have its eviction request.
	gone []evacuation.Step

	// mu guards these fields while steps are tried. The goroutine of a step is the only one that writes to its element of
	// steps, so it reads the element without mu.
	mu    sync.Mutex
	steps []hostrecord.RecordedStep
	// unmarked are VMs, by UUID, into which the eviction request could not be written.
	unmarked map[string]bool
	// underWay are VMs, by UUID, whose step is being tried. ended says that no step is tried any more.
	underWay map[string]bool
	ended    bool
	// failedTargets are, by UUID, the targets to which a move of the VM failed.
	failedTargets map[string][]string
	// unsafe are VMs whose live migration libvirt refused.
	unsafe unsafeMoves

	// moveSlots bound how many VMs move at a time, endSlots how many guests are shut down or saved at a time.
	moveSlots, endSlots *admission.Slots
	// verifySlots let one step at a time check whether the steps still hold. stop ends the drain when they don't.
	verifySlots *admission.Slots
	stop        context.CancelCauseFunc
}

// Drain cordons the host and evicts all VMs that their rules allow to leave, several at a time. It returns every step
// and its result. A step that fails is tried again until ctx ends. Then Drain returns an error, the host stays
// cordoned, and the results stay recorded on the host.
//
// When ctx is cancelled, no further step begins. A step that has begun is aborted as far as possible, unless the VM's
// policy says to finish it: Drain waits for that until the deadline of ctx, if ctx has one. Drain stops itself in the
// same way when it finds, before it changes another VM, that the given steps no longer hold.
//
// If a VM blocks the drain, or the given steps no longer hold, Drain returns an error before it changes anything. It
// returns nil steps only then: once the host is cordoned, or may be, because no answer came, the steps of a host
// without VMs are empty and not nil.
func (dr *Drainer) Drain(ctx context.Context, want Drain) ([]hostrecord.RecordedStep, error) {
	h, err := dr.hosts.UsableHost(want.Host)
	if err != nil {
		return nil, err
	}

	own, end := dr.underWay.announce(h.Name)
	defer end()

	if err := dr.otherDrains(ctx, h, want); err != nil {
		return nil, err
	}

	dr.underWay.begin(own)

	held, unlock, err := dr.records.Lock(ctx, h, "maintenance", "draining")
	if err != nil {
		return nil, err
	}
	defer unlock()

	dr.hosts.ForgetAll()

	d := &drainRun{
		Drain: want, drainer: dr, host: h, turn: own, since: time.Now().UTC().Truncate(time.Second),
		moveSlots: admission.NewSlots(dr.mover.Queue.Limits().OutboundPerHost), failedTargets: make(map[string][]string),
		endSlots: admission.NewSlots(endsAtOnce),
		unmarked: make(map[string]bool), underWay: make(map[string]bool), verifySlots: admission.NewSlots(1),
	}
	if err := d.prepare(held); err != nil {
		if errors.Is(err, records.ErrMaybeWritten) { // The cordon is the only record that prepare writes.
			return append([]hostrecord.RecordedStep{}, d.steps...), err
		}

		return nil, err
	}

	working, stop := context.WithCancelCause(held)
	defer stop(nil)

	d.stop = stop
	d.runSteps(working)

	after, cancel := finishContext(held)
	defer cancel()

	d.ended = true
	err = d.outcomeError(after, context.Cause(working))
	if recordErr := d.writeOutcome(after, err == nil); err == nil {
		err = recordErr
		dr.records.TellElsewhere(after, d.Host, d.ID, &hostrecord.Evacuation{Since: d.since, Done: true, Steps: d.steps})
	}

	return append([]hostrecord.RecordedStep{}, d.steps...), err
}

// finishContext returns a context for what follows a step, a drain or its end. It isn't cancelled with ctx. Once the
// time of ctx is over, or a user has interrupted it, this must end as soon as any other operation: each of the steps
// may have used its own time after that already, and what the host can't record now, the next run finds out.
func finishContext(ctx context.Context) (context.Context, context.CancelFunc) {
	left := inventory.FinishTimeout

	if deadline, limited := ctx.Deadline(); limited {
		left = min(left, max(time.Until(deadline), 0)+lease.Grace)
	}

	if ctx.Err() != nil {
		left = min(left, lease.Grace)
	}

	return lease.CleanupContext(ctx, left)
}

// otherDrains returns an error if another maintenance drains the host, or is about to. It doesn't wait for the other
// maintenance, which may take hours and keeps the host afterwards.
func (dr *Drainer) otherDrains(ctx context.Context, h *inventory.Host, want Drain) error {
	record, _, err := inventory.ReadRecord(ctx, h)
	if err != nil || record.Cordon != nil && record.Cordon.ID == want.ID {
		return err
	}

	if record.Cordon != nil {
		who, err := dr.records.LiveHolder(ctx, h, "maintenance")
		if err != nil {
			return err
		}

		if who != "" {
			return want.drainedBy(record, who)
		}
	}

	// The lock of a killed run lasts this long. A run that is ending another maintenance may be done sooner.
	waiting, cancel := context.WithTimeout(ctx, lease.TakeoverTime+10*time.Second)
	defer cancel()

	_, unlock, err := dr.records.Lock(waiting, h, "maintenance", "draining")
	if locked, ok := errors.AsType[*inventory.Error](err); ok && errors.Is(err, records.ErrLocked) && ctx.Err() == nil {
		if record, _, err = inventory.ReadRecord(ctx, h); err == nil {
			err = want.drainedBy(record, locked.Detail)
		}
	}

	if err != nil {
		return err
	}

	unlock()

	return want.refuseOther(record)
}

// drainedBy returns the error that another run drains the host, or ends a maintenance of it. who says which run.
func (d Drain) drainedBy(record *hostrecord.Record, who string) error {
	if c := record.Cordon; c != nil {
		who = fmt.Sprintf("%s. Its maintenance has the id %s. %s", c.Text(d.Host), c.ID, who)
	}

	return &inventory.Error{
		Host: d.Host, Kind: records.ErrLocked, Detail: who,
		Remedy: "A host has one maintenance at a time: wait until that one has ended, not only its drain. If its run was " +
			"killed, its lock is taken over after " + lease.TakeoverTime.String() + ".",
		Next: inventory.Retry,
	}
}

// refuseOther returns an error if the host is under another maintenance.
func (d Drain) refuseOther(record *hostrecord.Record) error {
	if record.Cordon == nil || record.Cordon.ID == d.ID || record.Unfinished() {
		return nil
	}

	return &inventory.Error{
		Host: d.Host, Kind: inventory.ErrExists, Detail: record.Cordon.Text(d.Host),
		Existing: d.Host, Remedy: "If that is another maintenance, wait until it has ended.", Next: inventory.Retry,
	}
}

// prepare finds the steps, and refuses steps that can't work. Then it cordons the host and records the steps there.
func (d *drainRun) prepare(ctx context.Context) error {
	record, _, err := inventory.ReadRecord(ctx, d.host)
	if err != nil {
		return err
	}

	if err := d.refuseOther(record); err != nil {
		return err
	}

	before := record.Evacuation
	if lost := d.drainer.records.LostMaintenance(ctx, d.Host, d.ID, record); lost != nil {
		before = lost
	}

	d.unsafe = unsafeMovesOf(before)

	if err := d.findSteps(ctx, before); err != nil {
		return err
	}

	if d.Steps != nil {
		if changes := stepChanges(d.steps, nil, d.in); len(changes) > 0 {
			return &inventory.Error{
				Host: d.Host, Kind: inventory.ErrBusy, Detail: "nothing was touched, because " + (&changedError{changes}).Error(),
				Next: inventory.Replan,
			}
		}
	}

	if blocked := evacuation.BlockedSteps(undone(d.steps)); len(blocked) > 0 {
		return &inventory.Error{
			Host: d.Host, Kind: migration.ErrBlocked, Detail: BlockedText(d.Host, blocked), Remedy: BlockedRemedy(blocked),
		}
	}

	return d.drainer.placement.CordonFor(ctx, d.Host, d.ID, d.Why, func() *hostrecord.Evacuation {
		return d.evacuationRecord(false)
	})
}

// findSteps finds the steps. Hosts whose drains had their turn later than this one are avoided if that blocks no step.
// If all of several drains avoided each other, none could continue. Given steps say themselves which hosts they avoid.
func (d *drainRun) findSteps(ctx context.Context, before *hostrecord.Evacuation) error {
	if d.Steps != nil {
		d.drainer.underWay.avoidOnlyEarlier(d.turn)
	}

	if err := d.gatherInput(ctx); err != nil {
		return err
	}

	resumed := d.drainer.resumableSteps(ctx, d.Host, before)
	d.mergeWith(resumed)

	if d.Steps == nil && len(evacuation.BlockedSteps(undone(d.steps))) > 0 && d.drainer.underWay.avoidOnlyEarlier(d.turn) {
		if err := d.gatherInput(ctx); err != nil {
			return err
		}

		d.mergeWith(resumed)
	}

	d.keepUnsafe()
	d.noteWhereGone(ctx, resumed)

	return nil
}

// mergeWith sets the steps, which are given or computed, to those that remain after those of an earlier drain.
func (d *drainRun) mergeWith(resumed *hostrecord.Evacuation) {
	steps := d.Steps
	if steps == nil {
		steps = evacuation.Compute(d.in)
	}

	d.steps, d.gone = mergeSteps(d.in, steps, d.Steps != nil, resumed)
}

// endsAtOnce is how many guests of a host are shut down or saved at a time.
const endsAtOnce = 10

// slotsOf returns the slots that a step waits for. Nil means that it waits for none: another tool moves its VM.
func (d *drainRun) slotsOf(s hostrecord.RecordedStep) *admission.Slots {
	switch s.Method {
	case evacuation.MethodExternal:
		return nil
	case evacuation.MethodShutdown, evacuation.MethodSave:
		return d.endSlots
	default:
		return d.moveSlots
	}
}

// runSteps marks the VMs, and begins the steps in their order. A step waits only for steps that need the same slots.
func (d *drainRun) runSteps(ctx context.Context) {
	d.markAll(ctx)

	bySlots := make(map[*admission.Slots][]int)

	for i, s := range d.steps {
		if slots := d.slotsOf(s); !s.Done() {
			bySlots[slots] = append(bySlots[slots], i)
		}
	}

	var going sync.WaitGroup
	defer going.Wait()

	unbegun := make(chan struct{}, inspectionsAtOnce)

	for slots, steps := range bySlots {
		going.Go(func() {
			for _, i := range steps {
				leave, err := slots.Enter(ctx)
				if err == nil {
					going.Go(func() { d.runStep(ctx, i, leave) })

					continue
				}

				// The VMs are marked several at a time, so that a user who interrupts the drain doesn't wait for each VM in
				// turn.
				going.Go(func() {
					unbegun <- struct{}{}
					defer func() { <-unbegun }()

					d.finishStep(ctx, i, "", nil)
				})
			}
		})
	}
}
