package drain

import (
	"context"
	"errors"
	"slices"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/hostrecord"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
)

// EvacuationPlan is how a host will be, or is being, drained.
type EvacuationPlan struct {
	Steps []evacuation.Step
	// Recorded says that the host is under maintenance, and these are its steps.
	Recorded bool
}

// EvacuationQuery is what PlanEvacuation is asked.
type EvacuationQuery struct {
	// MoveStopped moves VMs that are off, too.
	MoveStopped bool
	// AskQEMU also asks QEMU itself what it refuses, which taints the VMs.
	AskQEMU bool
	// Maintenance says that it is asked for a maintenance that is to begin, or to go on,
	// and ID is the one that it has: it is told only what is left to do.
	Maintenance bool
	ID          string
}

// PlanEvacuation says how the host would be drained, as of the snapshot. For one
// that is under maintenance it returns what was planned for that, as long as that
// holds. Where it doesn't, since the drain was killed, has ended before the host was
// empty, or VMs have come, it is what the next one would follow: what was done, and
// the rest as things are now.
func (dr *Drainer) PlanEvacuation(ctx context.Context, name string, q EvacuationQuery) (EvacuationPlan, error) {
	record, err := dr.records.Record(ctx, name)
	silent := errors.Is(err, inventory.ErrUnreachable) && !q.Maintenance

	if silent {
		if e := dr.records.ToldElsewhere(ctx, name); e != nil && !e.Abridged {
			record, err = hostrecord.Record{Cordon: &hostrecord.Cordon{}, Evacuation: e}, nil
		}
	}

	if err != nil {
		return EvacuationPlan{}, err
	}

	e := record.Evacuation
	p := EvacuationPlan{Recorded: record.Cordon != nil && e != nil}

	if p.Recorded && q.Maintenance {
		p.Recorded = e.Done && record.Cordon.ID != q.ID // That of somebody else.
	}

	if p.Recorded && (silent || e.Done && dr.restsOn(ctx, name, e, q.MoveStopped)) {
		p.Steps = plainSteps(e.Steps)

		return p, nil
	}

	in, err := dr.evacuationInput(ctx, dr.hosts.Host(name), inquiry{moveStopped: q.MoveStopped, askQEMU: q.AskQEMU})
	if errors.Is(err, inventory.ErrBusy) && p.Recorded && !e.Ended {
		p.Steps = plainSteps(e.Steps) // A drain is at it.

		return p, nil
	}

	if err != nil {
		return EvacuationPlan{}, err
	}

	d := &drain{Drain: Drain{Host: name}, in: in}
	before := dr.remembered(ctx, name, e)

	if p.Recorded && !e.Ended && !e.Done {
		d.take(plainSteps(e.Steps), before)

		if len(changed(d.steps, nil, in)) == 0 {
			p.Steps = plainSteps(e.Steps)

			return p, nil
		}

		d.steps = nil
	}

	d.take(evacuation.Compute(in), before)

	if q.Maintenance && !p.Recorded {
		d.steps = slices.DeleteFunc(d.steps, hostrecord.Step.Done)
	}

	p.Steps = plainSteps(d.steps)

	return p, nil
}

// restsOn says that nothing is left to do on a host that was drained, as of the snapshot.
func (dr *Drainer) restsOn(ctx context.Context, name string, e *hostrecord.Evacuation, moveStopped bool) bool {
	running, err := dr.RunningOn(ctx, name)
	if err != nil || len(running) > 0 {
		return false
	}

	return !moveStopped || !slices.ContainsFunc(e.Steps,
		func(s hostrecord.Step) bool { return s.Result == hostrecord.ResultLeft })
}

// plainSteps are the steps without what became of them.
func plainSteps(steps []hostrecord.Step) []evacuation.Step {
	plain := make([]evacuation.Step, len(steps))
	for i, s := range steps {
		plain[i] = s.Step
	}

	return plain
}

// RunningOn are the names of the VMs that run on the host, as of the
// snapshot, sorted.
func (dr *Drainer) RunningOn(ctx context.Context, name string) ([]string, error) {
	h, err := dr.hosts.UsableHost(name)
	if err != nil {
		return nil, err
	}

	a, err := dr.hosts.ReplyOf(ctx, h)
	if err != nil {
		return nil, err
	}

	var names []string

	for _, e := range a.View.Domains {
		if e.Active() {
			names = append(names, e.Name)
		}
	}

	slices.Sort(names)

	return names, nil
}
