package drain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/hostrecord"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
)

// EvacuationPlan says how a host will be, or is being, drained.
type EvacuationPlan struct {
	Steps []evacuation.Step
	// Recorded says that the host is under maintenance, and that its record has these steps.
	Recorded bool
	// OnItsWay is a warning about a VM that is arriving at the host or leaving it, which the steps omit: the drain
	// waits for it, and decides then. Nil means that there is none.
	OnItsWay *inventory.Problem
	// UnknownPins is a warning about VMs that leave although their configurations may bring them back. Nil means that
	// there are none.
	UnknownPins *inventory.Problem
}

// EvacuationQuery says what PlanEvacuation is to plan.
type EvacuationQuery struct {
	// MoveStopped also moves VMs that are off.
	MoveStopped bool
	// AskQEMU also asks QEMU itself what blocks a migration, which taints the VMs.
	AskQEMU bool
	// Maintenance says that a maintenance with this ID is to begin or to continue: the plan has only the steps that
	// remain.
	Maintenance bool
	ID          string
}

// PlanEvacuation returns how the host would be drained, as of the snapshot. For a host under maintenance it returns the
// recorded steps while they hold. If they don't, because the drain was killed, ended before the host was drained, or
// VMs have arrived since, it returns the steps of the next drain: those that are done, and the rest computed again.
func (dr *Drainer) PlanEvacuation(ctx context.Context, name string, q EvacuationQuery) (EvacuationPlan, error) {
	record, silent, err := dr.recordForPlan(ctx, name, q)
	if err != nil {
		return EvacuationPlan{}, err
	}

	e := record.Evacuation
	p := EvacuationPlan{Recorded: record.Drain() != nil}

	if p.Recorded && q.Maintenance {
		p.Recorded = e.Done && record.Cordon.ID != q.ID // The record is another maintenance's.
	}

	if p.Recorded && (silent || e.Done && dr.nothingLeftOn(ctx, name, e, q.MoveStopped)) {
		p.Steps = plainSteps(e.Steps)

		return p, nil
	}

	in, onItsWay, err := dr.evacuationInput(ctx, dr.hosts.Host(name),
		inputQuery{moveStopped: q.MoveStopped, askQEMU: q.AskQEMU, unsafe: unsafeMovesOf(e)})

	moving := err
	if err == nil && !q.Maintenance {
		moving = onItsWay
	}

	if errors.Is(moving, inventory.ErrBusy) && p.Recorded && !e.Ended {
		p.Steps = plainSteps(e.Steps) // A drain is running.

		return p, nil
	}

	if err != nil {
		return EvacuationPlan{}, err
	}

	p.OnItsWay = onItsWayProblem(name, onItsWay, q)
	before := dr.resumableSteps(ctx, name, e)

	if p.Recorded && !e.Ended && !e.Done {
		recorded, _ := mergeSteps(in, plainSteps(e.Steps), false, before)
		if len(stepChanges(recorded, nil, in)) == 0 {
			p.Steps = plainSteps(e.Steps)

			return p, nil
		}
	}

	steps, _ := mergeSteps(in, evacuation.Compute(in), false, before)
	if !p.Recorded { // What is done is no step of a drain that is still to begin.
		steps = slices.DeleteFunc(steps, hostrecord.RecordedStep.Done)
	}

	p.Steps = plainSteps(steps)
	p.UnknownPins = dr.warnUnknownPins(in, p.Steps)

	return p, nil
}

// recordForPlan returns the record of a host. If the host doesn't answer, and no maintenance is planned, it returns
// what other hosts were told of the record, and silent.
func (dr *Drainer) recordForPlan(
	ctx context.Context, name string, q EvacuationQuery,
) (record hostrecord.Record, silent bool, err error) {
	record, err = dr.records.Record(ctx, name)
	silent = errors.Is(err, inventory.ErrUnreachable) && !q.Maintenance

	if silent {
		if e := dr.records.ToldElsewhere(ctx, name); e != nil && !e.Abridged {
			record, err = hostrecord.Record{Cordon: &hostrecord.Cordon{}, Evacuation: e}, nil
		}
	}

	return record, silent, err
}

// nothingLeftOn says whether a drained host needs no further step, as of the snapshot.
func (dr *Drainer) nothingLeftOn(ctx context.Context, name string, e *hostrecord.Evacuation, moveStopped bool) bool {
	running, err := dr.hosts.RunningOn(ctx, name)
	if err != nil || len(running) > 0 {
		return false
	}

	return !moveStopped || !slices.ContainsFunc(e.Steps,
		func(s hostrecord.RecordedStep) bool { return s.Result == hostrecord.ResultLeft })
}

// onItsWayProblem returns a warning about the VM that an onItsWayError is about, nil for none.
func onItsWayProblem(host string, onItsWay error, q EvacuationQuery) *inventory.Problem {
	e, ok := errors.AsType[*onItsWayError](onItsWay)
	if !ok {
		return nil
	}

	then := "The drain waits until it has ended, or ends it if the run that began it is gone. Then it decides what is " +
		"left to do"
	if !q.Maintenance {
		then = "The steps omit this virtual machine. A drain by these steps waits until the migration has ended, and stops " +
			"before it begins if the virtual machine is on the host then"
	}

	return &inventory.Problem{
		Attribute: "host", Summary: "Virtual machine is being migrated", Warning: true,
		Detail: fmt.Sprintf("Virtual machine %q comes to host %q or leaves it by a migration that has not ended (%s). %s",
			e.vm.Name, host, e.vm.StateFacts().HostStatesText(), then),
	}
}

// warnUnknownPins returns a warning about the VMs that are to run on another host by these steps, and that another
// configuration pins to a host which has no such name here: it may be this host. It returns nil for none.
func (dr *Drainer) warnUnknownPins(in evacuation.Input, steps []evacuation.Step) *inventory.Problem {
	var pinned []string

	for _, s := range steps {
		vm, here := in.VM(s.UUID)
		if here && vm.Pin != "" && dr.hosts.Host(vm.Pin) == nil && evacuation.RequestsEviction(s.Method) {
			pinned = append(pinned, fmt.Sprintf("%q is pinned to host %q", vm.Name, vm.Pin))
		}
	}

	if len(pinned) == 0 {
		return nil
	}

	return &inventory.Problem{
		Attribute: "host", Summary: "Virtual machine is pinned to the host", Warning: true,
		Detail: fmt.Sprintf("By their host attributes, these virtual machines of host %q belong on a host of a name that is "+
			"unknown here. If that is another name of host %q, they will be moved back:\n  - %s", in.Host, in.Host,
			strings.Join(pinned, "\n  - ")),
		Remedy: "Use one name for the host wherever its virtual machines are managed, or remove their host attributes.",
	}
}

// plainSteps returns the steps without their results.
func plainSteps(steps []hostrecord.RecordedStep) []evacuation.Step {
	plain := make([]evacuation.Step, len(steps))
	for i, s := range steps {
		plain[i] = s.Step
	}

	return plain
}
