package drain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/admission"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/hostrecord"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/lease"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
)

// Drain is the wish that a host be empty.
type Drain struct {
	// Host is its name, ID that of the mark that cordons it, Why the reason for
	// others to read.
	Host, ID, Why string
	// Steps are to be followed exactly. Nil: they are computed.
	Steps []evacuation.Step
	// MoveStopped moves VMs that are off, too.
	MoveStopped bool
}

// drain is one Drain in progress.
type drain struct {
	Drain
	drainer *Drainer
	host    *inventory.Host

	mu    sync.Mutex
	in    evacuation.Input
	steps []hostrecord.Step
	since time.Time
	// gone have left in an earlier attempt that was killed, and may carry its mark.
	gone []string
	// unmarked are those that could not be given the request, by UUID.
	unmarked map[string]bool
	// underWay are those, by UUID, of which a step is being tried. ended says that
	// nothing is tried any more.
	underWay map[string]bool
	ended    bool
	// turns are those of the steps, failed the targets that a step failed with.
	turns  *admission.Slots
	failed map[string][]string
	// ends are the turns of steps that end a run on the host, and transfer nothing.
	ends *admission.Slots
	// looks are the turns of those who look whether the steps still hold, stop ends
	// the drain when they don't.
	looks *admission.Slots
	stop  context.CancelCauseFunc
}

// Drain cordons the host and takes all VMs away from it that their rules
// let go, several at once. It returns every step and what became of it. What
// failed is tried again until ctx ends; then it is an error, the host stays
// cordoned, and what was done stays done and recorded there.
//
// When ctx is cancelled nothing new begins. What has begun is broken off, as far
// as it can be, unless its VM's policy says to finish it: that is waited for
// until the deadline of ctx, if it has one. The drain does the same to itself when
// it finds, before it touches another VM, that the given steps no longer hold.
//
// Before anything is touched it is an error if a VM blocks the drain or if
// the given steps no longer hold.
func (dr *Drainer) Drain(ctx context.Context, want Drain) ([]hostrecord.Step, error) {
	h, err := dr.hosts.UsableHost(want.Host)
	if err != nil {
		return nil, err
	}

	if err := dr.otherDrains(ctx, h, want); err != nil {
		return nil, err
	}

	held, unlock, err := dr.records.Lock(ctx, h, "maintenance", "draining")
	if err != nil {
		return nil, err
	}
	defer unlock()

	dr.hosts.ForgetAll()

	d := &drain{
		Drain: want, drainer: dr, host: h, since: time.Now().UTC().Truncate(time.Second),
		turns: admission.NewSlots(dr.mover.Queue.Limits().OutboundPerHost), failed: make(map[string][]string),
		ends:     admission.NewSlots(endsAtOnce),
		unmarked: make(map[string]bool), underWay: make(map[string]bool), looks: admission.NewSlots(1),
	}
	if err := d.prepare(held); err != nil {
		return nil, err
	}

	working, stop := context.WithCancelCause(held)
	defer stop(nil)

	d.stop = stop
	d.run(working)

	after, cancel := lease.CleanUp(held, inventory.FinishTimeout)
	defer cancel()

	d.ended = true
	err = d.outcome(after, context.Cause(working))
	if recordErr := d.record(after, err == nil); err == nil {
		err = recordErr
		dr.records.TellElsewhere(after, d.Host, &hostrecord.Evacuation{Since: d.since, Done: true, Steps: d.steps})
	}

	return d.steps, err
}

// otherDrains returns an error when another maintenance drains the host. That may take
// hours, and the host is that maintenance's afterwards.
func (dr *Drainer) otherDrains(ctx context.Context, h *inventory.Host, want Drain) error {
	record, _, err := inventory.ReadRecord(ctx, h)
	if err != nil || record.Cordon == nil || record.Cordon.ID == want.ID {
		return err
	}

	// A run that was killed has its lock for so long.
	ctx, cancel := context.WithTimeout(ctx, lease.TakeoverTime+10*time.Second)
	defer cancel()

	_, unlock, err := dr.records.Lock(ctx, h, "maintenance", "draining")
	if err != nil {
		return err
	}

	unlock()

	return want.refuseOther(record)
}

// refuseOther refuses to drain a host that is under another maintenance.
func (d Drain) refuseOther(record *hostrecord.Record) error {
	if record.Cordon == nil || record.Cordon.ID == d.ID || record.Abandoned() {
		return nil
	}

	return &inventory.Error{
		Host: d.Host, Kind: inventory.ErrExists, Detail: record.Cordon.Text(d.Host),
		Remedy: fmt.Sprintf("If it is this maintenance, import it: terraform import <address> %s", d.Host),
	}
}

// prepare finds the steps, and refuses them where they can't work. Then it
// cordons the host, records the steps there and marks the VMs.
func (d *drain) prepare(ctx context.Context) error {
	record, _, err := inventory.ReadRecord(ctx, d.host)
	if err != nil {
		return err
	}

	if err := d.refuseOther(record); err != nil {
		return err
	}

	if err := d.gather(ctx); err != nil {
		return err
	}

	steps := d.Steps
	if steps == nil {
		steps = evacuation.Compute(d.in)
	}

	d.take(steps, d.drainer.remembered(ctx, d.Host, record.Evacuation))

	if d.Steps != nil {
		if changes := changed(d.steps, nil, d.in); len(changes) > 0 {
			return &inventory.Error{
				Host: d.Host, Kind: inventory.ErrBusy, Detail: "nothing was touched, because " + (&changedError{changes}).Error(),
				Remedy: "Plan and apply again.",
			}
		}
	}

	if blocked := evacuation.BlockedSteps(steps); len(blocked) > 0 {
		return &inventory.Error{
			Host: d.Host, Kind: migration.ErrBlocked, Detail: BlockedText(d.Host, blocked), Remedy: BlockedRemedy,
		}
	}

	return d.drainer.placement.CordonFor(ctx, d.Host, d.ID, d.Why, func() *hostrecord.Evacuation {
		return d.evacuation(false)
	})
}

// endsAtOnce bounds how many guests of a host are shut down or saved at the same time.
const endsAtOnce = 10

// slotsOf are the turns that a step waits for; nil: it needs none.
func (d *drain) slotsOf(s hostrecord.Step) *admission.Slots {
	switch s.Method {
	case evacuation.MethodExternal:
		return nil
	case evacuation.MethodShutdown, evacuation.MethodSave:
		return d.ends
	default:
		return d.turns
	}
}

// gather finds what the drain depends on, once nobody else moves a VM of the
// host any more: nobody can say of one that comes or leaves whether it is one.
func (d *drain) gather(ctx context.Context) error {
	for {
		in, onItsWay, err := d.drainer.evacuationInputWithout(ctx, d.host, inquiry{
			moveStopped: d.MoveStopped, askQEMU: true, atRest: true,
		})
		if err != nil {
			return err
		}

		if onItsWay == nil {
			d.in = in

			return nil
		}

		answers, err := d.drainer.hosts.Snapshot(ctx)
		if err != nil || len(inventory.SilentHosts(answers)) > 0 {
			return onItsWay // What it waits for may be on a host that is off, and take for ever.
		}

		d.drainer.log.InfoContext(ctx, "waiting for a VM that is being moved", "host", d.Host, "reason", onItsWay.Error())

		if err := d.drainer.concludeAbandoned(ctx, onItsWay); err != nil {
			return err
		}

		if err := admission.Pause(ctx, externalPoll); err != nil {
			return onItsWay
		}

		d.drainer.hosts.ForgetAll()
	}
}

// concludeAbandoned brings the migration that an onItsWayError is about to its end,
// if its run left it behind.
func (dr *Drainer) concludeAbandoned(ctx context.Context, onItsWay error) error {
	e, ok := errors.AsType[*onItsWayError](onItsWay)
	if !ok || !e.vm.LeftMoving() {
		return nil
	}

	who, err := lease.LiveHolder(ctx, e.vm.On.Conn, e.vm.UUID)
	if err != nil || who != "" {
		return nil //nolint:nilerr // Whoever has it, or whatever it is, is seen by the next look.
	}

	_, err = dr.mover.ConcludeInterrupted(ctx, e.vm, inventory.LastKnown{Host: e.vm.Host, HostUUID: e.vm.HostUUID},
		migration.Options{})
	if inventory.IsNotFound(err) {
		return nil
	}

	return err
}

// BlockedRemedy says what to do about VMs that hold up a drain.
const BlockedRemedy = "Remove the blockers, or set a fallback for these VMs in a virtfleet_eviction_policy."

// BlockedText names every VM that holds up a drain, with its reasons.
func BlockedText(host string, blocked []evacuation.Step) string {
	var b strings.Builder

	fmt.Fprintf(&b, "host %q can't be drained because of:", host)

	for _, s := range blocked {
		fmt.Fprintf(&b, "\n  - %q (strategy %s of %s): %s", s.Name, s.Strategy, originText(s),
			strings.Join(s.Blockers, ";\n    "))
	}

	return b.String()
}

func originText(s evacuation.Step) string {
	switch s.Origin {
	case evacuation.OriginPolicy:
		return fmt.Sprintf("policy %q", s.Policy)
	case evacuation.OriginVM:
		return "its own"
	default:
		return "the provider"
	}
}

// run marks the VMs, and carries the steps out in their order.
func (d *drain) run(ctx context.Context) {
	d.markAll(ctx)

	var going sync.WaitGroup
	defer going.Wait()

	steps := slices.Clone(d.steps)

	// Those that somebody else moves wait for nobody.
	for i, s := range steps {
		if !s.Done() && s.Method == evacuation.MethodExternal {
			going.Go(func() { d.evict(ctx, i, nil, func() {}) })
		}
	}

	unbegun := make(chan struct{}, preflightsAtOnce)

	for i, s := range steps {
		if s.Done() || s.Method == evacuation.MethodExternal {
			continue
		}

		slots := d.slotsOf(s)

		leave, err := slots.Enter(ctx)
		if err != nil {
			// All at once: whoever interrupts a drain doesn't wait for one VM after another.
			going.Go(func() {
				unbegun <- struct{}{}
				defer func() { <-unbegun }()

				d.finish(ctx, i, "", nil)
			})

			continue
		}

		going.Go(func() { d.evict(ctx, i, slots, leave) })
	}
}

// markAll writes the request into every VM that is to go on elsewhere, so
// that all who look see it from the beginning.
func (d *drain) markAll(ctx context.Context) {
	var marking errgroup.Group

	marking.SetLimit(preflightsAtOnce)

	for _, s := range d.steps {
		if !s.Done() && evacuation.RequestsEviction(s.Method) {
			marking.Go(func() error {
				if err := d.drainer.requestEviction(ctx, s.UUID, d.Host); err != nil {
					d.drainer.log.WarnContext(ctx, "eviction not marked", "name", s.Name, "error", err.Error())

					d.mu.Lock()
					d.unmarked[s.UUID] = true // Its turn begins with another attempt.
					d.mu.Unlock()
				}

				return nil
			})
		}
	}

	for i, s := range d.steps {
		if s.Done() && s.Autostart {
			marking.Go(func() error {
				// It is off, and had got this back when the earlier attempt was given up.
				_, err := d.turnOff(ctx, i, "", func(context.Context, *inventory.VM) error { return nil })
				if err != nil && !inventory.IsNotFound(err) {
					d.drainer.log.WarnContext(ctx, "autostart not suspended", "name", s.Name, "error", err.Error())
				}

				return nil
			})
		}
	}

	for _, uuid := range d.gone {
		marking.Go(func() error {
			if err := d.drainer.clearEviction(ctx, uuid, d.Host); err != nil && !inventory.IsNotFound(err) {
				d.drainer.log.WarnContext(ctx, "mark of eviction not removed", "uuid", uuid, "error", err.Error())
			}

			return nil
		})
	}

	_ = marking.Wait()
}
