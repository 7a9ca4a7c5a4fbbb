package drain

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/hostrecord"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/lease"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/records"
)

// mergeSteps returns the steps of a drain. Steps that an earlier drain has done stay done. Given steps keep their
// order.
// Computed steps follow the order of the earlier drain, as far as they were part of it. gone are those whose VM left in
// the earlier drain before that could record it.
func mergeSteps(
	in evacuation.Input, steps []evacuation.Step, given bool, before *hostrecord.Evacuation,
) (merged []hostrecord.RecordedStep, gone []evacuation.Step) {
	if before == nil {
		before = &hostrecord.Evacuation{}
	}

	find := func(uuid string) int {
		return slices.IndexFunc(steps, func(s evacuation.Step) bool { return s.UUID == uuid })
	}

	for _, s := range before.Steps {
		at := find(s.UUID)

		now := s.Step
		if at >= 0 {
			now = steps[at]
		}

		step, left := resumeStep(in, now, &s)
		if left {
			gone = append(gone, now)
		}

		if at >= 0 || step.Done() || step.Ran {
			merged = append(merged, step)
		}
	}

	for _, s := range steps {
		if !slices.ContainsFunc(before.Steps, func(o hostrecord.RecordedStep) bool { return o.UUID == s.UUID }) {
			step, _ := resumeStep(in, s, nil)
			merged = append(merged, step)
		}
	}

	if given {
		slices.SortStableFunc(merged, func(a, b hostrecord.RecordedStep) int {
			return cmp.Compare(find(a.UUID), find(b.UUID))
		})
	}

	for i, s := range merged {
		if !s.Done() {
			merged[i].Options = ruleOf(in, s).Options
		}
	}

	return merged, gone
}

// resumeStep returns a step with what is done of it already: by an earlier drain, which may have been killed before it
// could record that, or by another tool. gone says that the VM left in the earlier drain, which didn't record it.
func resumeStep(
	in evacuation.Input, now evacuation.Step, before *hostrecord.RecordedStep,
) (step hostrecord.RecordedStep, gone bool) {
	vm, here := in.VM(now.UUID)
	off := here && !vm.Active
	step = hostrecord.RecordedStep{Step: now}
	if before != nil {
		step.Autostart = before.Autostart
		// After a step that was done the VM was started again. A step by another method hasn't begun to turn it off.
		step.Stopping = before.Stopping && !before.Done() &&
			(now.Method == before.Method || now.Method == evacuation.MethodLeave)
	}

	switch {
	case before != nil && before.Result == hostrecord.ResultLeft && here && now.Method == evacuation.MethodCold:
		// The earlier drain left it in place, and this one is to move it.
	case before != nil && before.Returning && (!here || off):
		// The end of the maintenance shut the VM down to move it back, so it is moved and started here, too.
		step = *before
		step.Result, step.Completed, step.Ran, step.Halted = "", false, true, before.ReturningHalted
		step.Returning, step.ReturningHalted = false, false
	case before != nil && before.Done() && (!here || off):
		return *before, false
	case before != nil && before.Ran && !before.Done():
		// The earlier drain shut the VM down to move it, so it is moved and started, whichever host has it.
		step = *before
		step.Result, step.Reason = "", ""
	case !here && before != nil:
		step = *before
		step.Result, step.Reason = hostrecord.ResultMoved, ""
		gone = true
	case !here:
		step.Result, step.Reason = hostrecord.ResultMoved, errGone.Error()
	case before != nil && before.Stopping && off:
		step = *before
		step.Result, step.Reason = turnedOff(before.Method), ""
	}

	return step, gone
}

// noteWhereGone notes where the VMs are whose steps are done only because they are no longer on the host, and not
// because the earlier drain recorded it. That may be another host than the planned one.
func (d *drainRun) noteWhereGone(ctx context.Context, before *hostrecord.Evacuation) {
	recorded := map[string]bool{}

	if before != nil {
		for _, s := range before.Steps {
			recorded[s.UUID] = s.Done()
		}
	}

	for i, s := range d.steps {
		if _, here := d.in.VM(s.UUID); here || s.Result != hostrecord.ResultMoved || recorded[s.UUID] {
			continue
		}

		vm, err := d.drainer.hosts.Find(ctx, s.UUID, d.lastKnown())
		if err == nil && vm.On != d.host && !isOnTarget(vm, s) {
			d.steps[i].Arrived = vm.Host
		}
	}
}

// isOnTarget reports whether the VM is on the target of its step. The target may have another name by now.
func isOnTarget(vm *inventory.VM, s hostrecord.RecordedStep) bool {
	if s.TargetUUID != "" {
		return vm.HostUUID == s.TargetUUID
	}

	return vm.Host == s.Target
}

// undone returns the steps that are still to be done, without their results.
func undone(steps []hostrecord.RecordedStep) []evacuation.Step {
	return plainSteps(slices.DeleteFunc(slices.Clone(steps), hostrecord.RecordedStep.Done))
}

// turnedOff returns the result of a step that turns a VM off by this method.
func turnedOff(method string) string {
	if method == evacuation.MethodSave {
		return hostrecord.ResultSaved
	}

	return hostrecord.ResultShutDown
}

// writeRecord writes the steps and their results to the host's record.
func (d *drainRun) writeRecord(ctx context.Context, done bool) error {
	return d.drainer.records.ChangeRecord(ctx, d.host, func(r *hostrecord.Record) error {
		r.Evacuation = d.evacuationRecord(done) // Under the lock: an older one would lose what other steps have noted.

		return nil
	})
}

// writeOutcome writes the record of a drain that has ended. If no answer came about a completed one, it writes that
// again: a drain that failed only because of the answer would be undone and repeated.
func (d *drainRun) writeOutcome(ctx context.Context, done bool) error {
	err := d.writeRecord(ctx, done)
	if !done || !errors.Is(err, records.ErrMaybeWritten) {
		return err
	}

	again, cancel := lease.CleanupContext(ctx, inventory.FinishTimeout)
	defer cancel()

	return d.writeRecord(again, done)
}

// evacuationRecord returns the record of the drain in its current state. done says that the host is drained.
func (d *drainRun) evacuationRecord(done bool) *hostrecord.Evacuation {
	d.mu.Lock()
	defer d.mu.Unlock()

	if done { // Only then: a step that is under way reads its own entry without the lock.
		for i := range d.steps {
			d.steps[i].Completed = true
		}
	}

	return &hostrecord.Evacuation{Since: d.since, Done: done, Ended: d.ended && !done, Steps: slices.Clone(d.steps)}
}
