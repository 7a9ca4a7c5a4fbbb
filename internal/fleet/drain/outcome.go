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
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/lease"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/move"
)

// outcomeError returns which steps are not done, and why. Nil means that the host is drained.
func (d *drainRun) outcomeError(ctx context.Context, cause error) error {
	come, err := d.verifyDrained(ctx)

	var failed, kept []string

	for _, s := range d.steps {
		switch {
		case s.Done():
			kept = append(kept, s.DoneText())
		default:
			failed = append(failed, notDone(s))
		}
	}

	for _, name := range come {
		failed = append(failed, fmt.Sprintf("\n  - %q: it has come meanwhile", name))
	}

	if len(failed) == 0 {
		return err
	}

	what := fmt.Sprintf("host %q is cordoned and not drained", d.Host)
	remedy, next := "", inventory.Continue

	change, stopped := errors.AsType[*changedError](cause)

	var lost error

	switch {
	case stopped:
		what = change.Error() + "\nnothing more was begun, and what is left has to be decided again; " + what
		next = inventory.Replan
	case errors.Is(cause, lease.ErrLost):
		lost = cause
		what = "this run has stopped draining it; " + what
		remedy, next = "Wait until the run that took over has ended.", inventory.Replan
	case errors.Is(cause, context.DeadlineExceeded):
		what = overText(cause) + "; " + what
		remedy = "Set longer timeouts."
	case d.Steps != nil && d.refusedUnsafe():
		next = inventory.Replan // The steps are others then.
	case cause != nil:
		what = "it was interrupted; " + what
	}

	if err != nil { // Some of the VMs may have left since.
		what += "; " + err.Error()
	}

	if len(kept) > 0 {
		what += "; done are " + strings.Join(kept, ", ")
	}

	return &inventory.Error{
		Host: d.Host, Kind: move.ErrNotMoved, Err: lost, Detail: what + "; not done are:" + strings.Join(failed, ""),
		Remedy: remedy, Next: next,
	}
}

// overText returns which deadline passed.
func overText(cause error) string {
	if cause == context.DeadlineExceeded { //nolint:errorlint // a wrapping error says more
		return "its time was over"
	}

	return cause.Error()
}

// notDone returns the line about a step that is not done. A list in its reason is indented below that line.
func notDone(s hostrecord.RecordedStep) string {
	reason := strings.TrimPrefix(s.Reason, fmt.Sprintf("virtual machine %q: ", s.Name))

	return fmt.Sprintf("\n  - %q (%s): %s", s.Name, s.Method, strings.ReplaceAll(reason, "\n  - ", "\n    - "))
}

// verifyDrained asks the host which VMs run there now. Their steps are not done, whatever was recorded. It returns the
// names of running VMs that have no step.
func (d *drainRun) verifyDrained(ctx context.Context) (come []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, inventory.AskTimeout)
	defer cancel()

	d.host.Forget()

	v, err := d.drainer.hosts.ViewOf(ctx, d.host)
	if err == nil {
		err = v.Err
	}

	if err != nil {
		return nil, &inventory.Error{
			Host: d.Host, Kind: inventory.ErrUnreachable, Err: err,
			Detail: fmt.Sprintf("whether host %q is drained is unknown", d.Host),
			Remedy: "Bring the host back.", Next: inventory.Retry,
		}
	}

	running, off := make(map[string]string), make(map[string]bool)

	for uuid, e := range v.Domains {
		if e.Active() {
			running[uuid] = e.Name
		} else {
			off[uuid] = true
		}
	}

	d.mu.Lock()
	defer d.mu.Unlock()

	return reconcile(d.steps, running, off), nil
}

// reconcile corrects the results of steps by what the host has: running are the names of the VMs that run there, by
// UUID, off are those that are off. A VM that runs there has not left. One that was asked to shut down, and did so
// after its step had given up on it, is off. It returns the names of running VMs that have no step.
func reconcile(steps []hostrecord.RecordedStep, running map[string]string, off map[string]bool) (come []string) {
	for i, s := range steps {
		if s.Result == hostrecord.ResultFailed && s.Stopping && off[s.UUID] {
			steps[i].Result, steps[i].Reason = turnedOff(s.Method), ""
		}
	}

	for uuid, name := range running {
		i := slices.IndexFunc(steps, func(s hostrecord.RecordedStep) bool { return s.UUID == uuid })

		switch {
		case i < 0:
			come = append(come, name)
		case steps[i].Done():
			steps[i].Reason = fmt.Sprintf("it was recorded as %s, and runs there all the same", steps[i].Result)
			steps[i].Result, steps[i].Completed = hostrecord.ResultFailed, false
			steps[i].Ran, steps[i].Halted = false, false // What it is started for is over.
		}
	}

	slices.Sort(come)

	return come
}

// BlockedRemedy says what to do about VMs that block a drain. It advises a fallback only where that would help.
func BlockedRemedy(blocked []evacuation.Step) string {
	names := map[evacuation.Unblocks][]string{}
	for _, s := range blocked {
		names[s.Unblocks] = append(names[s.Unblocks], s.Name)
	}

	const policy = "in a virtfleet_eviction_policy"

	leaving, none := names[evacuation.LeavingFallback], names[evacuation.NoFallback]
	if len(leaving) == 0 && len(none) == 0 {
		return "Remove the blockers, or set a fallback for these VMs " + policy + "."
	}

	text := "Remove the blockers."
	if other := slices.Concat(names[evacuation.UnblocksUnknown], names[evacuation.AnyFallback]); len(other) > 0 {
		text += fmt.Sprintf(" Or set a fallback %s for %s.", policy, inventory.QuoteList(other))
	}

	if len(leaving) > 0 {
		text += fmt.Sprintf(" Or set the fallback Shutdown or Save %s for %s: ColdMigrate is blocked too.", policy,
			inventory.QuoteList(leaving))
	}

	if len(none) > 0 {
		text += fmt.Sprintf(" No fallback helps for %s.", inventory.QuoteList(none))
	}

	return text
}

// BlockedText names every VM that blocks a drain, with its reasons.
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
