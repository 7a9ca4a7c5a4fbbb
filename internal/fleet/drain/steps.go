package drain

import (
	"cmp"
	"context"
	"slices"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/hostrecord"
)

// take makes the steps those of this drain, and what an earlier attempt has done
// stays done. Those that were given keep their order; others follow that of the
// earlier attempt, as far as they were part of it.
func (d *drain) take(steps []evacuation.Step, before *hostrecord.Evacuation) {
	if before == nil {
		before = &hostrecord.Evacuation{}
	}

	find := func(uuid string) int {
		return slices.IndexFunc(steps, func(s evacuation.Step) bool { return s.UUID == uuid })
	}

	for _, s := range before.Steps {
		if at := find(s.UUID); at >= 0 {
			d.steps = append(d.steps, d.resume(steps[at], &s))
		} else if s = d.resume(s.Step, &s); s.Done() || s.Ran {
			d.steps = append(d.steps, s)
		}
	}

	for _, s := range steps {
		if !slices.ContainsFunc(before.Steps, func(o hostrecord.Step) bool { return o.UUID == s.UUID }) {
			d.steps = append(d.steps, d.resume(s, nil))
		}
	}

	if d.Steps != nil {
		slices.SortStableFunc(d.steps, func(a, b hostrecord.Step) int { return cmp.Compare(find(a.UUID), find(b.UUID)) })
	}

	for i, s := range d.steps {
		if !s.Done() {
			d.steps[i].Options = d.rule(s).Options
		}
	}
}

// resume is a step as far as it was done before: by an earlier attempt, which
// may have been killed before it could record that, or by somebody else.
func (d *drain) resume(now evacuation.Step, before *hostrecord.Step) hostrecord.Step {
	here := slices.ContainsFunc(d.in.VMs, func(m evacuation.VM) bool { return m.UUID == now.UUID })
	step := hostrecord.Step{Step: now}
	if before != nil {
		step.Autostart, step.Ran = before.Autostart, before.Ran
	}

	switch {
	case before != nil && before.Result == hostrecord.ResultLeft && here && now.Method == evacuation.MethodCold:
		// It was left where it is, and is to go by now.
	case before != nil && before.Done() && (!here || d.idle(now.UUID)):
		return *before
	case before != nil && before.Ran && !before.Done():
		// It was shut down to be moved, so it is moved and started, wherever it is.
		step = *before
		step.Result, step.Reason = "", ""
	case !here && before != nil:
		step = *before
		step.Result, step.Reason = hostrecord.ResultMoved, ""
		d.gone = append(d.gone, now.UUID)
	case !here:
		step.Result, step.Reason = hostrecord.ResultMoved, errGone.Error()
	case before != nil && d.idle(now.UUID) && before.Method == evacuation.MethodShutdown:
		step = *before
		step.Result, step.Reason = hostrecord.ResultShutDown, ""
	case before != nil && d.idle(now.UUID) && before.Method == evacuation.MethodSave:
		step = *before
		step.Result, step.Reason = hostrecord.ResultSaved, ""
	}

	return step
}

// idle says that the VM is off.
func (d *drain) idle(uuid string) bool {
	return slices.ContainsFunc(d.in.VMs, func(m evacuation.VM) bool { return m.UUID == uuid && !m.Active })
}

// record writes the steps, and what became of them, to the host.
func (d *drain) record(ctx context.Context, done bool) error {
	e := d.evacuation(done)

	return d.drainer.records.ChangeRecord(ctx, d.host, func(r *hostrecord.Record) error {
		r.Evacuation = e

		return nil
	})
}

// evacuation is what is recorded of the drain as it stands.
func (d *drain) evacuation(done bool) *hostrecord.Evacuation {
	d.mu.Lock()
	defer d.mu.Unlock()

	return &hostrecord.Evacuation{Since: d.since, Done: done, Ended: d.ended && !done, Steps: slices.Clone(d.steps)}
}
