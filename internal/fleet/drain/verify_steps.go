package drain

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/hostrecord"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
)

// changedError says that the given steps no longer hold, and why. It is the cause with which the drain stops itself:
// steps that have begun end as if the drain had been cancelled.
type changedError struct{ changes []string }

func (e *changedError) Error() string {
	return "the steps no longer hold:\n  - " + strings.Join(e.changes, "\n  - ")
}

func (e *changedError) Is(target error) bool { return target == context.Canceled }

// beginTry is called before each try of a step. If the steps are to be followed exactly, it checks that the steps that
// are not under way still hold, and stops the drain if they don't. A failed try doesn't change the steps, and neither
// does a host that can't be asked: the step is retried while it still holds.
func (d *drainRun) beginTry(ctx context.Context, i int) error {
	if d.Steps == nil {
		return nil
	}

	// One check at a time: a step that begins meanwhile would be neither under way nor waiting.
	leave, err := d.verifySlots.Enter(ctx)
	if err != nil {
		return err
	}
	defer leave()

	d.mu.Lock()
	s := d.steps[i]
	d.mu.Unlock()

	if changesVM(s.Method) {
		changes, err := d.verifySteps(ctx, s)
		if err != nil {
			return err
		}

		if len(changes) > 0 {
			err := &changedError{changes}
			d.drainer.log.WarnContext(ctx, "drain stops", "host", d.Host, "reason", err.Error())
			d.stop(err)

			return err
		}
	}

	d.mu.Lock()
	defer d.mu.Unlock()

	d.underWay[s.UUID] = true

	return nil
}

// endTry notes that a try of the step has failed: until the next try the step waits like a step that has not begun. A
// step that is done counts as under way until its result is noted.
func (d *drainRun) endTry(i int) {
	d.mu.Lock()
	defer d.mu.Unlock()

	delete(d.underWay, d.steps[i].UUID)
}

// changesVM says whether the drain itself changes a VM with this method.
func changesVM(method string) bool {
	switch method {
	case evacuation.MethodLive, evacuation.MethodCold, evacuation.MethodShutdown, evacuation.MethodSave:
		return true
	default:
		return false
	}
}

// verifySteps returns why the steps, of which s is the next, can't be followed exactly now.
func (d *drainRun) verifySteps(ctx context.Context, s hostrecord.RecordedStep) ([]string, error) {
	d.mu.Lock()
	steps, underWay := slices.Clone(d.steps), maps.Clone(d.underWay)
	d.mu.Unlock()

	// Ask again only for what this step depends on. Each other step is checked before it begins.
	d.host.Forget()

	if to := d.drainer.hosts.Host(s.Target); to != nil {
		to.Forget()
	}

	goals := map[string]string{}
	if s.Method == evacuation.MethodLive {
		goals[s.UUID] = s.Target
	}

	in, _, err := d.drainer.evacuationInput(ctx, d.host, inputQuery{
		turn: d.turn, moveStopped: d.MoveStopped, askQEMU: true, known: d.inspectedExcept(s.UUID), goals: goals,
		unsafe: d.unsafeNow(),
	})
	if err != nil {
		return nil, err
	}

	changes := stepChanges(steps, underWay, in)

	if _, here := in.VM(s.UUID); s.Target != "" && !here {
		switch vm, err := d.drainer.hosts.FindNow(ctx, s.UUID, d.lastKnown()); {
		case inventory.IsNotFound(err):
		case err != nil:
			return nil, err
		case vm.Host != d.Host && vm.Host != s.Target:
			changes = append(changes, fmt.Sprintf("virtual machine %q was to go to host %q, but was moved to "+
				"host %q", s.Name, s.Target, vm.Host))
		}
	}

	return changes, nil
}

// stepChanges returns why the steps that are neither done nor under way can't be followed exactly. A VM that was shut
// down to be moved is under way until it has moved, whichever run shut it down. The step of a VM that can't be
// inspected holds: nothing shows that it changed, and the step itself fails if it is impossible.
func stepChanges(steps []hostrecord.RecordedStep, underWay map[string]bool, in evacuation.Input) (changes []string) {
	ours := make(map[string]hostrecord.RecordedStep, len(steps))
	for _, s := range steps {
		ours[s.UUID] = s
	}

	in.VMs = slices.DeleteFunc(slices.Clone(in.VMs), func(m evacuation.VM) bool {
		s, planned := ours[m.UUID]

		switch {
		case underWay[m.UUID] || s.Ran && !s.Done() || m.Unclear && planned && !s.Done():
			return true
		case !s.Done() || s.Method == evacuation.MethodLeave:
			return false
		case m.Active:
			changes = append(changes, fmt.Sprintf("virtual machine %q was %s, and runs on host %q again", m.Name,
				s.Result, in.Host))
		}

		return true
	})

	return append(changes, evacuation.DescribeChanges(plainSteps(steps), in)...)
}
