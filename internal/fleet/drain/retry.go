package drain

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/admission"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/hostrecord"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/move"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// runStep carries out one step: it tries the step until it succeeds, time is over, or no retry can help. Before each
// retry it waits for a slot, that of its method by then. leave returns the slot that the caller took for the first try.
func (d *drainRun) runStep(ctx context.Context, i int, leave func()) {
	rule := ruleOf(d.in, d.steps[i])
	limited, over := ctx, func() {}

	if rule.OnCancel == evacuation.Finish {
		var stop func()

		limited, over, stop = admission.WithGrace(ctx)
		defer stop()
	}

	var late error // set when the policy's timeout for the VM is over

	if rule.Timeout != nil {
		var cancel context.CancelFunc

		late = &lateError{policy: rule.Policy, limit: *rule.Timeout}
		limited, cancel = context.WithTimeoutCause(limited, *rule.Timeout, late)
		defer cancel()
	}

	var t stepTries

	err := admission.Retry{
		Try: func(ctx context.Context) error {
			defer over()

			return d.tryAndNote(ctx, i, rule, &t)
		},
		Again: func(err error, after time.Duration) bool {
			if t.final {
				return false
			}

			d.drainer.log.WarnContext(ctx, "eviction failed, will be tried again", "name", d.steps[i].Name, "after", after,
				"error", err.Error())

			return true
		},
		Prepare: func(ctx context.Context) { d.retarget(ctx, i) },
		Enter: func(ctx context.Context) (func(), error) {
			return d.slotsOf(d.steps[i]).Enter(ctx) // Prepare may have changed its method.
		},
	}.Run(limited, leave)

	switch {
	case errors.Is(err, context.Canceled):
		err = t.last // The drain was stopped before another try.
	case err != nil && late != nil && errors.Is(context.Cause(limited), late) && !saysCause(err, late):
		err = fmt.Errorf("%w; %w", err, late) // The aborted call doesn't know which timeout is over.
	}

	d.finishStep(ctx, i, t.result, err)
}

// saysCause reports whether the text of an error has its cause. That of a failed migration has only a reason.
func saysCause(err, cause error) bool {
	_, migrated := errors.AsType[*migration.FailedError](err)

	return !migrated && errors.Is(err, cause)
}

// stepTries is what the tries of a step have come to.
type stepTries struct {
	result string
	last   error // of the last try that did something
	final  bool  // no retry will help
}

// tryAndNote tries a step once, and notes in t what came of it.
func (d *drainRun) tryAndNote(ctx context.Context, i int, rule evacuation.Rule, t *stepTries) error {
	if err := d.beginTry(ctx, i); err != nil {
		t.final = isPermanent(err) // For any VM: a user has to resolve that first.

		return err
	}

	switch t.result, t.last = d.tryStep(ctx, i, rule); {
	case t.last == nil:
	case d.drainer.hosts.IsGone(ctx, d.steps[i].UUID, d.lastKnown(), t.last):
		t.last, t.final = errGone, true // It counts as under way until that is noted.
	default:
		t.final = isPermanent(t.last) || d.hasNoWayOut(ctx, i, t.last)
		d.endTry(i)
	}

	return t.last
}

// errGone means that no host has the VM any more.
var errGone = errors.New("it had gone already")

// isPermanent says whether retries won't help.
func isPermanent(err error) bool {
	_, changed := errors.AsType[*changedError](err)

	return changed || errors.Is(err, inventory.ErrTwoCopies) || errors.Is(err, inventory.ErrAmbiguous) ||
		errors.Is(err, move.ErrStays) || errors.Is(err, errShutDownInVain)
}

// ruleOf returns the eviction rule that applies to the VM of a step.
func ruleOf(in evacuation.Input, s hostrecord.RecordedStep) evacuation.Rule {
	vm, here := in.VM(s.UUID)
	if !here {
		return evacuation.Rule{Strategy: s.Strategy}
	}

	return evacuation.SelectRule(vm, in.Host, in.Policies, in.Default)
}

// lastKnown returns the drained host as the place where a VM of this drain was last seen.
func (d *drainRun) lastKnown() inventory.LastKnown { return inventory.LastKnown{Host: d.Host} }

// hasNoWayOut says whether a VM whose move was refused with err can't leave to any host by any method that its rule
// allows: a user has to resolve that first. If the steps are to be followed exactly, beginTry stops the drain instead.
// What libvirt refuses as unsafe has no other way by these steps: only the next plan can show the fallback.
func (d *drainRun) hasNoWayOut(ctx context.Context, i int, err error) bool {
	unsafe := d.steps[i].Method == evacuation.MethodLive && errors.Is(err, libvirt.ErrUnsafe)
	if d.Steps != nil || !unsafe && !errors.Is(err, migration.ErrBlocked) {
		return d.Steps != nil && unsafe
	}

	in, err := d.refreshInput(ctx, d.steps[i].UUID)
	if err != nil {
		return false // The next try says why.
	}

	now := stepNow(in, d.steps[i].UUID)
	vm, here := in.VM(d.steps[i].UUID)

	return here && now != nil && now.Method == evacuation.MethodBlocked && vm.Unmigratable()
}

// refreshInput returns what the drain depends on now. It inspects again only this VM, because others may be moving.
func (d *drainRun) refreshInput(ctx context.Context, uuid string) (evacuation.Input, error) {
	d.drainer.hosts.ForgetAll()

	in, _, err := d.drainer.evacuationInput(ctx, d.host, inputQuery{
		turn: d.turn, moveStopped: d.MoveStopped, askQEMU: true, known: d.inspectedExcept(uuid), unsafe: d.unsafeNow(),
	})

	return in, err
}

// inspectedExcept returns the VMs that the drain has inspected, by UUID, without the VM that is to be inspected again.
func (d *drainRun) inspectedExcept(but string) map[string]evacuation.VM {
	known := make(map[string]evacuation.VM, len(d.in.VMs))

	for _, m := range d.in.VMs {
		if m.UUID != but {
			known[m.UUID] = m
		}
	}

	return known
}

// stepNow returns the step that would be computed for the VM now, nil for none.
func stepNow(in evacuation.Input, uuid string) *evacuation.Step {
	steps := evacuation.Compute(in)

	at := slices.IndexFunc(steps, func(s evacuation.Step) bool { return s.UUID == uuid })
	if at < 0 {
		return nil
	}

	return &steps[at]
}

// retarget chooses another target for a VM whose move failed, or the fallback of its rule if it can no longer be moved
// live. It changes nothing if the steps are to be followed exactly.
func (d *drainRun) retarget(ctx context.Context, i int) {
	s := d.steps[i]
	if d.Steps != nil || s.Target == "" {
		return
	}

	in, err := d.refreshInput(ctx, s.UUID)
	if err != nil {
		return // The next try says why.
	}

	if now := stepNow(in, s.UUID); s.Method == evacuation.MethodLive && now != nil && now.Method != s.Method &&
		changesVM(now.Method) {
		d.fallBack(ctx, i, *now)

		return
	}

	d.mu.Lock()
	defer d.mu.Unlock()

	d.failedTargets[s.UUID] = append(d.failedTargets[s.UUID], s.Target)

	target := targetFor(in, s.Step, d.failedTargets[s.UUID])
	if target == "" { // The moves to all targets failed, so each may be tried again.
		d.failedTargets[s.UUID] = nil
		target = targetFor(in, s.Step, nil)
	}

	if target != "" {
		d.steps[i].Target, d.steps[i].TargetUUID = target, ""
	}
}

// fallBack replaces the step of a VM that can no longer be moved live.
func (d *drainRun) fallBack(ctx context.Context, i int, now evacuation.Step) {
	before := d.steps[i]
	d.drainer.log.WarnContext(ctx, "virtual machine can't be moved live any more", "name", before.Name, "host", d.Host,
		"method", now.Method, "reason", strings.Join(now.Blockers, "; "))

	if evacuation.RequestsEviction(before.Method) && !evacuation.RequestsEviction(now.Method) {
		d.tryClearEviction(ctx, before.Step)
	}

	d.mu.Lock()
	defer d.mu.Unlock()

	d.steps[i].Step = now
	d.failedTargets[now.UUID] = nil
}

// targetFor returns the host to which the VM of a step would go now by the same method, without the hosts in but. ""
// means none.
func targetFor(in evacuation.Input, s evacuation.Step, but []string) string {
	in.VMs = slices.Clone(in.VMs)

	for i, m := range in.VMs {
		if m.UUID == s.UUID {
			in.VMs[i].LiveBlockers, in.VMs[i].ColdBlockers = withoutHosts(m.LiveBlockers, but), withoutHosts(m.ColdBlockers, but)
		}
	}

	if now := stepNow(in, s.UUID); now != nil && now.Method == s.Method {
		return now.Target
	}

	return ""
}

// withoutHosts returns a copy of blockers by host, without these hosts.
func withoutHosts(ways map[string][]migration.Blocker, hosts []string) map[string][]migration.Blocker {
	left := maps.Clone(ways)
	maps.DeleteFunc(left, func(host string, _ []migration.Blocker) bool { return slices.Contains(hosts, host) })

	return left
}

// lateError says that a VM took longer than its policy allows.
type lateError struct {
	policy string
	limit  time.Duration
}

func (e *lateError) Error() string {
	return fmt.Sprintf("policy %q gives it no more than %s", e.policy, e.limit)
}

// Is says that a deadline has passed.
func (e *lateError) Is(target error) bool { return target == context.DeadlineExceeded }

// reasonLimit is how many bytes of the reason of a failure are recorded: a host may have hundreds of VMs, and the size
// of its record is limited.
const reasonLimit = 1000

// shortenReason truncates a text that is longer than reasonLimit, after a sentence if one ends there: half a remedy
// can't be followed.
func shortenReason(text string) string {
	if len(text) <= reasonLimit {
		return text
	}

	end := reasonLimit
	for !utf8.RuneStart(text[end]) {
		end--
	}

	if whole := strings.LastIndex(text[:end], ". "); whole > reasonLimit/2 {
		return text[:whole+1] + " …"
	}

	return text[:end] + "…"
}

// reasonOf returns why a step failed, for the record and the plan. Go's words for a cancelled call mean nothing there.
func reasonOf(err error) string {
	text := err.Error()
	if what, cancelled := strings.CutSuffix(text, ": "+context.Canceled.Error()); cancelled {
		text = what + ": it was cancelled"
	}
	if errors.Is(err, libvirt.ErrUnsafe) {
		text += ". " + migration.UnsafeRemedy
	}
	return shortenReason(text)
}

// finishStep records the result of a step, and removes the eviction request from the VM.
func (d *drainRun) finishStep(ctx context.Context, i int, result string, err error) {
	d.mu.Lock()
	s := &d.steps[i]
	s.Result, s.Reason = result, ""
	delete(d.underWay, s.UUID)

	switch {
	case errors.Is(err, errGone):
		s.Result, s.Reason = hostrecord.ResultMoved, errGone.Error()
	case err != nil:
		s.Result, s.Reason = hostrecord.ResultFailed, reasonOf(err)
	case result == "":
		s.Reason = "it was not begun"
	}

	if s.ForcedOff != nil {
		s.Reason = strings.TrimPrefix(s.Reason+"; "+s.ForcedOff.Text(), "; ")
	}

	if len(s.Stay) > 0 {
		s.Reason = strings.TrimPrefix(shortenReason(s.Reason+"; not removed: "+strings.Join(s.Stay, "; ")), "; ")
	}
	d.mu.Unlock()

	after, cancel := finishContext(ctx)
	defer cancel()

	if evacuation.RequestsEviction(s.Method) {
		d.tryClearEviction(after, s.Step)
	}

	// After a cancel the drain records all results at its end. A step that is done is recorded at once.
	if ctx.Err() == nil || s.Done() {
		if err := d.writeRecord(after, false); err != nil {
			d.drainer.log.WarnContext(after, "result of eviction not recorded", "name", s.Name, "error", err.Error())
		}
	}
}
