package drain

import (
	"context"
	"errors"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/admission"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/hostrecord"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/move"
)

// Run is a drain in progress, of which tests on the lab take single steps.
type Run = drainRun

// ErrGone, ErrMayTurnOff and IsPermanent are what tests on the lab ask of errors.
var (
	ErrGone       = errGone
	ErrMayTurnOff = errMayTurnOff
	IsPermanent   = isPermanent
)

// Begun is a drain that is prepared, with these steps.
func Begun(dr *Drainer, want Drain, steps ...hostrecord.RecordedStep) *Run {
	return &Run{
		Drain: want, drainer: dr, host: dr.hosts.Host(want.Host), steps: steps,
		failedTargets: make(map[string][]string), unmarked: make(map[string]bool), unsafe: unsafeMoves{},
		underWay:    make(map[string]bool),
		verifySlots: admission.NewSlots(1), stop: func(error) {},
	}
}

// Step is one of the steps.
func (d *drainRun) Step(i int) *hostrecord.RecordedStep { return &d.steps[i] }

// Rule is what holds for the VM of a step.
func (d *drainRun) Rule(i int) evacuation.Rule { return ruleOf(d.in, d.steps[i]) }

// MarkAll marks the VMs.
func (d *drainRun) MarkAll(ctx context.Context) { d.markAll(ctx) }

// BeginStep checks that a step still holds.
func (d *drainRun) BeginStep(ctx context.Context, i int) error { return d.beginTry(ctx, i) }

// RunStep carries out a step until it is done or the drain ends.
func (d *drainRun) RunStep(ctx context.Context, i int) { d.runStep(ctx, i, func() {}) }

// Try carries out a step once.
func (d *drainRun) Try(ctx context.Context, i int, rule evacuation.Rule) (string, error) {
	return d.tryStep(ctx, i, rule)
}

// Stuck says that a VM can't leave, which could not be moved for this error.
func (d *drainRun) Stuck(ctx context.Context, i int, err error) bool {
	return d.hasNoWayOut(ctx, i, err)
}

// Retarget chooses another target, or another method.
func (d *drainRun) Retarget(ctx context.Context, i int) { d.retarget(ctx, i) }

// MoveCold moves the VM of a step while it is off.
func (d *drainRun) MoveCold(ctx context.Context, i int) (move.SourceFiles, error) {
	note := coldNotes{
		ran: func(ctx context.Context, ran, halted bool) error {
			if ran {
				return nil
			}

			return d.noteRan(ctx, i, ran, halted)
		},
		forcedOff: func(f hostrecord.ForcedOff) { d.noteForcedOff(i, f) },
	}

	return d.drainer.moveCold(ctx, d.host, d.steps[i], migration.Options{}, nil, note)
}

// ChangesOf are the changes for which a drain stopped itself with this error.
func ChangesOf(err error) []string {
	if stopped, ok := errors.AsType[*changedError](err); ok {
		return stopped.changes
	}

	return nil
}

// Input is what draining the host depends on, without VMs that come or leave, of which onItsWay is one.
func Input(
	ctx context.Context, dr *Drainer, host string, moveStopped bool,
) (in evacuation.Input, onItsWay, err error) {
	return dr.evacuationInput(ctx, dr.hosts.Host(host), inputQuery{moveStopped: moveStopped})
}
