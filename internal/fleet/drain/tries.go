package drain

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/admission"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/hostrecord"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/lease"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migrate"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
)

// evict carries out one step, again and again while it fails and there is time.
// slots are what it waits for before each try, and leave ends the turn that the
// caller took for the first.
func (d *drain) evict(ctx context.Context, i int, slots *admission.Slots, leave func()) {
	rule := d.rule(d.steps[i])
	limited, over := ctx, func() {}

	if rule.OnCancel == evacuation.Finish {
		var stop func()

		limited, over, stop = admission.WithGrace(ctx)
		defer stop()
	}

	var late error // why it ends when its policy's time is over

	if rule.Timeout != nil {
		var cancel context.CancelFunc

		late = fmt.Errorf("%w: policy %q gives it no more than %s", context.DeadlineExceeded, rule.Policy, *rule.Timeout)
		limited, cancel = context.WithTimeoutCause(limited, *rule.Timeout, late)
		defer cancel()
	}

	var (
		result string
		last   error // of those tries that did something
		final  bool  // another one won't help
	)

	err := admission.Retry{
		Try: func(ctx context.Context) error {
			defer over()

			if err := d.begin(ctx, i); err != nil {
				final = hopeless(err) // Of whomever: a person has to see to that first.

				return err
			}

			switch result, last = d.try(ctx, i, rule); {
			case last == nil:
			case d.drainer.hosts.IsGone(ctx, d.steps[i].UUID, d.last(), last):
				last, final = errGone, true // It is under way until that is noted.
			default:
				final = hopeless(last) || d.stuck(ctx, i, last)
				d.tried(i)
			}

			return last
		},
		Again: func(err error, after time.Duration) bool {
			if final {
				return false
			}

			d.drainer.log.WarnContext(ctx, "eviction failed, will be tried again", "name", d.steps[i].Name, "after", after,
				"error", err.Error())

			return true
		},
		Prepare: func(ctx context.Context) { d.aimAgain(ctx, i) },
	}.Run(limited, slots, leave)

	switch {
	case errors.Is(err, context.Canceled):
		err = last // It was stopped before another try.
	case err != nil && late != nil && errors.Is(context.Cause(limited), late) && !errors.Is(err, late):
		err = fmt.Errorf("%w; %w", err, late) // What it was doing doesn't know whose time is over.
	}

	d.finish(ctx, i, result, err)
}

// errGone ends the step of a VM that no host has any more.
var errGone = errors.New("it had gone already")

// hopeless says that trying again won't help.
func hopeless(err error) bool {
	_, changed := errors.AsType[*changedError](err)

	return changed || errors.Is(err, inventory.ErrTwoCopies) || errors.Is(err, inventory.ErrAmbiguous) ||
		errors.Is(err, migrate.ErrStays)
}

// rule is what holds for the VM of a step.
func (d *drain) rule(s hostrecord.Step) evacuation.Rule {
	at := slices.IndexFunc(d.in.VMs, func(m evacuation.VM) bool { return m.UUID == s.UUID })
	if at < 0 {
		return evacuation.Rule{Strategy: s.Strategy}
	}

	return evacuation.SelectRule(d.in.VMs[at], d.Host, d.in.Policies, d.in.Default)
}

// last is where a VM of the drained host was last.
func (d *drain) last() inventory.LastKnown { return inventory.LastKnown{Host: d.Host} }

// stuck says that a VM that could not be moved can't leave in any way that its rule
// allows, whatever becomes of the other hosts: a person has to see to that first.
// Where the steps are to be followed exactly, the drain as a whole stops for it.
func (d *drain) stuck(ctx context.Context, i int, err error) bool {
	if d.Steps != nil || !errors.Is(err, migration.ErrBlocked) {
		return false
	}

	in, err := d.lookAgain(ctx, d.steps[i].UUID)
	if err != nil {
		return false // The next attempt says why.
	}

	now := stepNow(in, d.steps[i].UUID)
	at := slices.IndexFunc(in.VMs, func(m evacuation.VM) bool { return m.UUID == d.steps[i].UUID })

	return now != nil && now.Method == evacuation.MethodBlocked && evacuation.Unmigratable(in.VMs[at])
}

// lookAgain is what the drain depends on now, with what blocks one VM
// looked at again. Others of the same drain may be on their way just now.
func (d *drain) lookAgain(ctx context.Context, uuid string) (evacuation.Input, error) {
	d.drainer.hosts.ForgetAll()

	in, _, err := d.drainer.evacuationInputWithout(ctx, d.host, inquiry{
		moveStopped: d.MoveStopped, askQEMU: true, known: d.known(uuid),
	})

	return in, err
}

// known are the VMs that the drain has looked at, without the one that is to be
// looked at again.
func (d *drain) known(but string) map[string]evacuation.VM {
	known := make(map[string]evacuation.VM, len(d.in.VMs))

	for _, m := range d.in.VMs {
		if m.UUID != but {
			known[m.UUID] = m
		}
	}

	return known
}

// stepNow is what would be done with the VM now, nil for nothing.
func stepNow(in evacuation.Input, uuid string) *evacuation.Step {
	steps := evacuation.Compute(in)

	at := slices.IndexFunc(steps, func(s evacuation.Step) bool { return s.UUID == uuid })
	if at < 0 {
		return nil
	}

	return &steps[at]
}

// aimAgain looks for another target for a VM that wasn't moved, or for what its
// rule falls back to if it can't be moved live any more, unless the steps are to be
// followed exactly.
func (d *drain) aimAgain(ctx context.Context, i int) {
	s := d.steps[i]
	if d.Steps != nil || s.Target == "" {
		return
	}

	in, err := d.lookAgain(ctx, s.UUID)
	if err != nil {
		return // The next attempt says why.
	}

	if now := stepNow(in, s.UUID); s.Method == evacuation.MethodLive && now != nil && now.Method != s.Method &&
		touches(now.Method) {
		d.fallBack(ctx, i, *now)

		return
	}

	d.mu.Lock()
	defer d.mu.Unlock()

	d.failed[s.UUID] = append(d.failed[s.UUID], s.Target)

	target := targetFor(in, s.Step, d.failed[s.UUID])
	if target == "" { // All have been tried, so all may be tried once more.
		d.failed[s.UUID] = nil
		target = targetFor(in, s.Step, nil)
	}

	if target != "" {
		d.steps[i].Target = target
	}
}

// fallBack makes another step of one whose VM can't be moved live any more.
func (d *drain) fallBack(ctx context.Context, i int, now evacuation.Step) {
	before := d.steps[i]
	d.drainer.log.WarnContext(ctx, "virtual machine can't be moved live any more", "name", before.Name, "host", d.Host,
		"method", now.Method)

	if evacuation.RequestsEviction(before.Method) && !evacuation.RequestsEviction(now.Method) {
		if err := d.drainer.clearEviction(ctx, before.UUID, d.Host); err != nil && !inventory.IsNotFound(err) {
			d.drainer.log.WarnContext(ctx, "mark of eviction not removed", "name", before.Name, "error", err.Error())
		}
	}

	d.mu.Lock()
	defer d.mu.Unlock()

	d.steps[i].Step = now
	d.failed[now.UUID] = nil
}

// targetFor is where the VM of a step would go now if it went neither to
// those nor another way, "" for nowhere.
func targetFor(in evacuation.Input, s evacuation.Step, but []string) string {
	in.VMs = slices.Clone(in.VMs)

	for i, m := range in.VMs {
		if m.UUID == s.UUID {
			in.VMs[i].Live, in.VMs[i].Cold = without(m.Live, but), without(m.Cold, but)
		}
	}

	steps := evacuation.Compute(in)
	at := slices.IndexFunc(steps, func(now evacuation.Step) bool { return now.UUID == s.UUID && now.Method == s.Method })

	if at < 0 {
		return ""
	}

	return steps[at].Target
}

// without is the ways to all hosts but those.
func without(ways map[string][]migration.Blocker, hosts []string) map[string][]migration.Blocker {
	left := maps.Clone(ways)
	maps.DeleteFunc(left, func(host string, _ []migration.Blocker) bool { return slices.Contains(hosts, host) })

	return left
}

// reasonLimit is how many bytes of why a step failed are kept: a host may have
// hundreds of VMs, and its record has its limits.
const reasonLimit = 600

// brief is the beginning of a text that is too long.
func brief(text string) string {
	if len(text) <= reasonLimit {
		return text
	}

	end := reasonLimit
	for !utf8.RuneStart(text[end]) {
		end--
	}

	return text[:end] + "…"
}

// finish records what became of a step, and takes the mark off the VM.
func (d *drain) finish(ctx context.Context, i int, result string, err error) {
	d.mu.Lock()
	s := &d.steps[i]
	s.Result, s.Reason = result, ""
	delete(d.underWay, s.UUID)

	switch {
	case errors.Is(err, errGone):
		s.Result, s.Reason = hostrecord.ResultMoved, errGone.Error()
	case err != nil:
		s.Result, s.Reason = hostrecord.ResultFailed, brief(err.Error())
	case result == "":
		s.Reason = "it was not begun"
	}
	d.mu.Unlock()

	after, cancel := lease.CleanUp(ctx, inventory.FinishTimeout)
	defer cancel()

	if evacuation.RequestsEviction(s.Method) {
		if err := d.drainer.clearEviction(after, s.UUID, d.Host); err != nil && !inventory.IsNotFound(err) {
			d.drainer.log.WarnContext(after, "mark of eviction not removed", "name", s.Name, "error", err.Error())
		}
	}

	// After a cancel all is recorded at the end; what is finished then doesn't wait for the others.
	if ctx.Err() == nil || s.Done() {
		if err := d.record(after, false); err != nil {
			d.drainer.log.WarnContext(after, "result of eviction not recorded", "name", s.Name, "error", err.Error())
		}
	}
}
