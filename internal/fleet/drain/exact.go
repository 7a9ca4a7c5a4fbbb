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

// changedError is why a drain with given steps stops itself: they no longer hold.
// What runs then ends as if it had been cancelled.
type changedError struct{ changes []string }

func (e *changedError) Error() string {
	return "the steps no longer hold:\n  - " + strings.Join(e.changes, "\n  - ")
}

func (e *changedError) Is(target error) bool { return target == context.Canceled }

// begin is called before each try of a step. Where the steps are to be followed
// exactly it looks first whether those that are not under way still hold, and stops
// the drain if they don't. That a try fails is no change of the world, nor is a
// world that can't be seen: the same is tried again later, as long as it is what
// would be done now.
func (d *drain) begin(ctx context.Context, i int) error {
	if d.Steps == nil {
		return nil
	}

	// One at a time: what begins meanwhile would be neither under way nor waiting.
	leave, err := d.looks.Enter(ctx)
	if err != nil {
		return err
	}
	defer leave()

	d.mu.Lock()
	s := d.steps[i]
	d.mu.Unlock()

	if touches(s.Method) {
		changes, err := d.look(ctx, s)
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

// tried says that a try of the step has failed: until the next one it waits as
// those do that have not begun. One that is done is under way until that is noted.
func (d *drain) tried(i int) {
	d.mu.Lock()
	defer d.mu.Unlock()

	delete(d.underWay, d.steps[i].UUID)
}

// touches says that a drain does something to a VM that is evicted by the
// method.
func touches(method string) bool {
	switch method {
	case evacuation.MethodLive, evacuation.MethodCold, evacuation.MethodShutdown, evacuation.MethodSave:
		return true
	default:
		return false
	}
}

// look says what keeps the steps from being followed exactly as things are now,
// of which s is the next.
func (d *drain) look(ctx context.Context, s hostrecord.Step) ([]string, error) {
	d.mu.Lock()
	steps, underWay := slices.Clone(d.steps), maps.Clone(d.underWay)
	d.mu.Unlock()

	// Only what this step depends on is asked anew: all others are looked at when it is their turn.
	d.host.Forget()

	if to := d.drainer.hosts.Host(s.Target); to != nil {
		to.Forget()
	}

	goals := map[string]string{}
	if s.Method == evacuation.MethodLive {
		goals[s.UUID] = s.Target
	}

	in, _, err := d.drainer.evacuationInputWithout(ctx, d.host, inquiry{
		moveStopped: d.MoveStopped, askQEMU: true, known: d.known(s.UUID), goals: goals,
	})
	if err != nil {
		return nil, err
	}

	changes := changed(steps, underWay, in)

	if s.Target != "" && !onHost(in, s.UUID) {
		switch vm, err := d.drainer.hosts.FindNow(ctx, s.UUID, d.last()); {
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

func onHost(in evacuation.Input, uuid string) bool {
	return slices.ContainsFunc(in.VMs, func(m evacuation.VM) bool { return m.UUID == uuid })
}

// changed says what keeps the steps that are neither done nor under way from
// being followed exactly. A VM that was shut down to be moved is under way
// until it is, whoever has done that.
func changed(steps []hostrecord.Step, underWay map[string]bool, in evacuation.Input) (changes []string) {
	ours := make(map[string]hostrecord.Step, len(steps))
	for _, s := range steps {
		ours[s.UUID] = s
	}

	in.VMs = slices.DeleteFunc(slices.Clone(in.VMs), func(m evacuation.VM) bool {
		s := ours[m.UUID]

		switch {
		case underWay[m.UUID] || s.Ran && !s.Done():
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
