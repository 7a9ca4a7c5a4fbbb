package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/eviction"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
)

// Results of a step of an evacuation. "" is that it is still to be done.
const (
	ResultMoved     = "Moved"
	ResultColdMoved = "ColdMoved"
	ResultShutDown  = "ShutDown"
	ResultSaved     = "Saved"
	ResultLeft      = "Left"
	ResultFailed    = "Failed"
)

// Evacuation is what was, or is to be, taken away from a host.
type Evacuation struct {
	Since time.Time `json:"since"`
	// Done says that the host was emptied.
	Done bool `json:"done"`
	// Ended says that the drain has ended before the host was empty: nobody is at it.
	Ended bool `json:"ended,omitempty"`
	// Steps are all of it, in their order.
	Steps []EvacuationStep `json:"steps"`
	// Abridged says that there was no room for the steps.
	Abridged bool `json:"abridged,omitempty"`
	// Releasing is the id of the maintenance that has ended, and still has to undo
	// what the steps did. "": none.
	Releasing string `json:"releasing,omitempty"`
	// GivenUp is when the maintenance ended before the host was empty. Zero: it has
	// not ended, or the host was.
	GivenUp time.Time `json:"given_up,omitzero"`
}

// EvacuationStep is a step of the plan and what became of it.
type EvacuationStep struct {
	eviction.Step

	// Result is one of the results.
	Result string `json:"result,omitempty"`
	// Reason says why the step failed.
	Reason string `json:"reason,omitempty"`
	// Autostart says that it was taken from the machine, so that its host doesn't
	// start it meanwhile.
	Autostart bool `json:"autostart,omitempty"`
	// Ran says that the machine ran before it was shut down to be moved, so that it
	// has to run afterwards.
	Ran bool `json:"ran,omitempty"`
	// Options are what the machine's policy said of moves. The way back goes by them
	// too, where nothing else is said by then.
	Options migration.Options `json:"options,omitzero"`
	// Kept are images that stayed when the machine was moved with its disks.
	Kept []KeptFile `json:"kept,omitempty"`
}

// done says that nothing is left to do.
func (s EvacuationStep) done() bool { return s.Result != "" && s.Result != ResultFailed }

// doneText says what was done with a machine, and where it went. One that had
// gone before may be anywhere.
func (s EvacuationStep) doneText() string {
	switch {
	case s.Reason != "":
		return fmt.Sprintf("%q %s (%s)", s.Name, s.Result, s.Reason)
	case s.Target != "":
		return fmt.Sprintf("%q %s to host %q", s.Name, s.Result, s.Target)
	default:
		return fmt.Sprintf("%q %s", s.Name, s.Result)
	}
}

// outline is what was planned, without what became of it: all that others have
// to tell while the host is off.
func (e *Evacuation) outline() *Evacuation {
	o := &Evacuation{Since: e.Since, Done: e.Done, Abridged: e.Abridged}
	for _, s := range e.Steps {
		o.Steps = append(o.Steps, EvacuationStep{Step: s.Step})
	}

	return o
}

// tellElsewhere lets the other hosts know that this one was emptied, or with nil
// that this is over. Those that don't answer don't know it, which matters only
// while this one is silent.
func (f *Fleet) tellElsewhere(ctx context.Context, name string, e *Evacuation) {
	_, err := f.changeRecords(ctx, func(host string, r *HostRecord) {
		delete(r.Elsewhere, name)

		if e == nil || host == name {
			return
		}

		if r.Elsewhere == nil {
			r.Elsewhere = make(map[string]*Evacuation)
		}

		r.Elsewhere[name] = e.outline()
	})
	if err != nil {
		f.log.WarnContext(ctx, "maintenance not recorded on other hosts", "host", name, "error", err.Error())
	}
}

// toldElsewhere is what the other hosts know of the host's maintenance, nil when
// it is under none.
func (f *Fleet) toldElsewhere(ctx context.Context, name string) *Evacuation {
	answers, err := f.snapshot(ctx)
	if err != nil {
		return nil
	}

	for _, a := range answers {
		if a.fenced() || a.host.name == name {
			continue
		}

		if record, err := a.recordIfAny(ctx); err == nil && record.Elsewhere[name] != nil {
			return record.Elsewhere[name]
		}
	}

	return nil
}

// SwitchedOff says that a host which doesn't answer was emptied for its
// maintenance, which is the usual reason then.
func (f *Fleet) SwitchedOff(ctx context.Context, name string) bool {
	return f.toldElsewhere(ctx, name) != nil
}

// Evicted says why the machine, which is off, is to stay so: its host is under a
// maintenance that shut it down or saved it. It is "" for any other machine.
func (f *Fleet) Evicted(ctx context.Context, vm *VM) (string, error) {
	if vm.Active {
		return "", nil
	}

	a, err := f.answerOf(ctx, vm.host)
	if err != nil {
		return "", err
	}

	record, err := a.recordOf(ctx)
	if err != nil {
		return "", err
	}

	return record.evicted(vm), nil
}

// evictedNow is Evicted without the snapshot.
func (f *Fleet) evictedNow(ctx context.Context, vm *VM) (string, error) {
	record, _, err := readRecord(ctx, vm.host)
	if err != nil {
		return "", err
	}

	return record.evicted(vm), nil
}

func (r HostRecord) evicted(vm *VM) string {
	if r.Cordon == nil || r.Evacuation == nil {
		return ""
	}

	for _, s := range r.Evacuation.Steps {
		if s.UUID == vm.UUID && s.off() {
			return r.Cordon.text(vm.Host)
		}
	}

	return ""
}

// off says that the drain has shut the machine down, or is about to: what became
// of it is recorded a little later.
func (s EvacuationStep) off() bool {
	switch s.Method {
	case eviction.MethodShutdown, eviction.MethodSave, eviction.MethodCold:
		return s.Result == "" || s.Result == ResultShutDown || s.Result == ResultSaved
	default:
		return false
	}
}

// EvacuationPlan is how a host will be, or is being, emptied.
type EvacuationPlan struct {
	Steps []eviction.Step
	// Recorded says that the host is under maintenance, and these are its steps.
	Recorded bool
}

// PlanEvacuation says how the host would be emptied, as of the snapshot. For one
// that is under maintenance it returns what was planned for that. Once a drain has
// ended before the host was empty, it is what the next one would follow: what was
// done, and the rest as things are now; but the maintenance itself, which gives its
// id, is told only what is left to do. moveStopped moves machines that are off, too.
func (f *Fleet) PlanEvacuation(ctx context.Context, name string, moveStopped bool, id string) (EvacuationPlan, error) {
	record, err := f.Record(ctx, name)
	if errors.Is(err, ErrUnreachable) && id == "" {
		if e := f.toldElsewhere(ctx, name); e != nil && !e.Abridged {
			record, err = HostRecord{Cordon: &Cordon{}, Evacuation: e}, nil
		}
	}

	if err != nil {
		return EvacuationPlan{}, err
	}

	e := record.Evacuation
	p := EvacuationPlan{Recorded: record.Cordon != nil && e != nil && (id == "" || record.Cordon.ID != id)}

	if p.Recorded && !e.Ended {
		p.Steps = plainSteps(e.Steps)

		return p, nil
	}

	in, err := f.evacuationInput(ctx, f.host(name), moveStopped)
	if err != nil {
		return EvacuationPlan{}, err
	}

	d := &drain{Drain: Drain{Host: name}, in: in}
	d.take(eviction.Compute(in), f.remembered(ctx, name, e))

	if id != "" && !p.Recorded {
		d.steps = slices.DeleteFunc(d.steps, EvacuationStep.done)
	}

	p.Steps = plainSteps(d.steps)

	return p, nil
}

// plainSteps are the steps without what became of them.
func plainSteps(steps []EvacuationStep) []eviction.Step {
	plain := make([]eviction.Step, len(steps))
	for i, s := range steps {
		plain[i] = s.Step
	}

	return plain
}

// RunningOn are the names of the machines that run on the host, as of the
// snapshot, sorted.
func (f *Fleet) RunningOn(ctx context.Context, name string) ([]string, error) {
	h, err := f.targetHost(name)
	if err != nil {
		return nil, err
	}

	a, err := f.answerOf(ctx, h)
	if err != nil {
		return nil, err
	}

	var names []string

	for _, e := range a.view.domains {
		if e.Active() {
			names = append(names, e.Name)
		}
	}

	slices.Sort(names)

	return names, nil
}
