package hostmaintenance

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/drain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/hostrecord"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/evacuationsteps"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/tfdiag"
)

// ModifyPlan plans that the host is drained, shows the steps, and returns an error if the host can't be drained. If the
// maintenance ends, it shows what that does with VMs.
func (r *Resource) ModifyPlan(
	ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse,
) {
	if r.Data == nil {
		return
	}
	if req.Plan.Raw.IsNull() {
		r.planDestroy(ctx, req, resp)
		return
	}
	var plan, state model
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	again := !req.State.Raw.IsNull()
	if again {
		resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
		again = state.Host.Equal(plan.Host)
	}
	if resp.Diagnostics.HasError() {
		return
	}
	if !again && !req.State.Raw.IsNull() && !r.Data.Unknown { // The maintenance of another host is replaced.
		resp.Diagnostics.Append(r.planEnd(ctx, &state, resp.Private)...)
	} else if again {
		resp.Diagnostics.Append(meta.WritePrivate(ctx, resp.Private, privateRestarts, nil)...)
	}
	plan.Drained, plan.Results = types.BoolValue(true), types.ListUnknown(resultType)
	rests := again && !plan.MoveStopped.IsUnknown() && plan.leavesHost(&state)
	if rests {
		plan.Results = state.Results
	}
	resp.Diagnostics.Append(resp.Plan.Set(ctx, &plan)...)
	switch {
	case r.Data.Unknown && again:
		resp.Diagnostics.Append(r.Data.UnknownError("update", noun))
	case r.Data.Unknown, plan.Host.IsUnknown(), plan.Steps.IsUnknown(), plan.MoveStopped.IsUnknown():
	case rests:
	default:
		resp.Diagnostics.Append(r.explainPlan(ctx, &plan)...)
	}
}

// explainPlan says what the apply will do, and what prevents it.
func (r *Resource) explainPlan(ctx context.Context, m *model) diag.Diagnostics {
	steps, diags := evacuationsteps.ToFleet(ctx, m.Steps)
	if diags.HasError() {
		return diags
	}
	host := m.Host.ValueString()
	at := path.Root("steps")
	diags.Append(r.explainMark(ctx, m)...)
	if steps == nil {
		plan, err := r.Data.Fleet.PlanEvacuation(ctx, host, fleet.EvacuationQuery{
			MoveStopped: m.MoveStopped.ValueBool(), Maintenance: true, ID: m.ID.ValueString(),
		})
		if err != nil {
			diags.Append(tfdiag.Failure{Verb: "plan", Noun: noun, Host: host, Err: err}.AttributeError(path.Root("host")))
			return diags
		}
		steps, at = plan.Steps, path.Root("host")
		text := "If applied now, the virtual machines of host %q are drained as follows"
		if plan.Recorded {
			text = "Another maintenance has drained host %q already. If that one ends first, the host is drained as " +
				"follows"
		}
		diags.AddAttributeWarning(at, "Host will be drained", fmt.Sprintf(
			text+":\n%s\n\nThe apply decides again. To drain exactly as planned or stop, set steps to "+
				"data.virtfleet_evacuation_plan.<name>.steps.", host, evacuationsteps.Text(steps)))
		for _, problem := range []*fleet.Problem{plan.OnItsWay, plan.UnknownPins} {
			if problem != nil {
				diags.Append(tfdiag.Problems([]fleet.Problem{*problem})...)
			}
		}
	}
	if blocked := evacuation.BlockedSteps(steps); len(blocked) > 0 {
		diags.Append(tfdiag.Problems([]fleet.Problem{{
			Attribute: at.String(), Summary: "Host can't be drained", Detail: drain.BlockedText(host, blocked),
			Remedy: drain.BlockedRemedy(blocked),
		}})...)
	}
	for _, s := range steps {
		if s.Method == evacuation.MethodPinned {
			diags.AddAttributeWarning(at, "Virtual machine is pinned to the host", fmt.Sprintf(
				"Virtual machine %q has host = %q in its configuration, which would move it back. It stays on the host, and "+
					"the apply fails after all other virtual machines have left.\n\nChange its host first, or remove host "+
					"from its configuration.", s.Name, host))
		}
	}
	return append(diags, r.warnOfOtherDrains(host, at, steps)...)
}

// warnOfOtherDrains warns about hosts that the same plan drains, if one of two drains moves VMs to the other's host.
// Each drain is planned for itself, so that its steps don't depend on the order in which Terraform plans.
func (r *Resource) warnOfOtherDrains(host string, at path.Path, steps []evacuation.Step) (diags diag.Diagnostics) {
	var targets []string
	for _, s := range steps {
		targets = append(targets, s.Target)
	}
	for _, other := range r.Data.Drains.Plans(host, targets) {
		both := []string{host, other}
		slices.Sort(both)
		diags.AddAttributeWarning(at, "Hosts are drained together", fmt.Sprintf(
			"This plan drains hosts %q and %q, and lists moves from one of them to the other. While both are drained, their "+
				"virtual machines go to other hosts instead, which need room for all of them. If no other host has it, a drain "+
				"waits until its time is over.\n\nIf you aren't sure that there is room, drain one host, end its maintenance, "+
				"and then drain the other.", both[0], both[1]))
	}
	return diags
}

// planDestroy says what the end of the maintenance does with VMs.
func (r *Resource) planDestroy(
	ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse,
) {
	var state model
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() || !r.Asks("delete", noun, &resp.Diagnostics) {
		return
	}
	resp.Diagnostics.Append(r.planEnd(ctx, &state, resp.Private)...)
}

// planEnd explains the end of the maintenance, and records which running VMs it shuts down.
func (r *Resource) planEnd(ctx context.Context, m *model, private meta.PrivateWriter) diag.Diagnostics {
	end, diags := r.explainEnd(ctx, m)
	if end == nil { // An earlier plan's list must not stay.
		return append(diags, meta.WritePrivate(ctx, private, privateRestarts, nil)...)
	}
	return append(diags, meta.WritePrivate(ctx, private, privateRestarts, end.Restarts)...)
}

// privateRestarts are the UUIDs of the running VMs that the planned end of the maintenance shuts down.
const privateRestarts = "restarts"

// explainEnd warns about each VM that the end of the maintenance moves, starts or restarts, and about those that stay
// away or off. It returns what is planned, nil if that is unknown: then the warning says that VMs may be shut down.
func (r *Resource) explainEnd(ctx context.Context, m *model) (*drain.ReleasePlan, diag.Diagnostics) {
	host, restore := m.Host.ValueString(), m.Restore.ValueBool()
	end, err := r.Data.Fleet.PlanRelease(ctx, host, m.ID.ValueString(), restore)
	detail := endText(end)
	switch {
	case err != nil && !restore:
		return nil, nil
	case err == nil && detail == "":
		return &end, nil
	case err != nil:
		detail = fmt.Sprintf("What the maintenance did is unknown: %s.\n\nIf the apply can end it, VMs that the drain moved "+
			"are moved back, VMs that it shut down or saved are started, and VMs that it moved while they were off are shut "+
			"down, moved back and started.", err)
	}
	detail += "\n\nThe apply decides again."
	switch {
	case end.Redrained:
		detail += " An apply that keeps the maintenance drains the host again."
		if restore {
			detail += " Once that is complete, its end brings back all that it moved."
		}
	case restore:
		detail += " To leave all virtual machines as they are, apply restore = false before."
	}
	// Terraform shows only one of several warnings with the same title, so the title has the host's name.
	warned := diag.Diagnostics{diag.NewWarningDiagnostic(fmt.Sprintf("Maintenance of host %s ends", host), detail)}
	if err != nil {
		return nil, warned
	}
	return &end, warned
}

// endText lists what the end of a maintenance does, "" for nothing.
func endText(end drain.ReleasePlan) string {
	var parts []string
	for _, part := range []struct {
		heading string
		lines   []string
	}{
		{"If applied now, the end of the maintenance does this", end.Restored},
		{"It doesn't restore", end.Unrestored},
	} {
		if len(part.lines) > 0 {
			parts = append(parts, part.heading+":\n  - "+strings.Join(part.lines, "\n  - "))
		}
	}
	return strings.Join(parts, "\n\n")
}

// explainMark warns about another maintenance of the host. While that is finished, the apply refuses to begin this one;
// an unfinished one it takes over. It is only a warning because the plan may end the other maintenance: Terraform
// doesn't tell a resource whether it replaces another one.
func (r *Resource) explainMark(ctx context.Context, m *model) diag.Diagnostics {
	const summary = "Host is under another maintenance"
	var diags diag.Diagnostics
	record, err := r.Data.Fleet.Record(ctx, m.Host.ValueString())
	if err != nil || record.MaintenanceID() == "" || record.Under(m.ID.ValueString()) {
		return nil // The caller's next step reports the error.
	}
	if record.Cordon == nil || record.Unfinished() {
		diags.AddAttributeWarning(path.Root("host"), summary, fmt.Sprintf("%s.\n\nUnless this very plan ends it first, "+
			"apply continues it as this maintenance. If another state has it, it leaves that state.",
			unfinishedText(m.Host.ValueString(), record)))
		return diags
	}
	detail := fmt.Sprintf("Host %q is cordoned by %s since %s: %s.\n\nUnless this very plan ends that one first, apply "+
		"will refuse to begin another. If it is the one of this configuration, import it: terraform import <address> %s",
		m.Host.ValueString(), record.Cordon.Owner, record.Cordon.Since.Format(time.RFC3339), record.Cordon.Why,
		m.Host.ValueString())
	end, err := r.Data.Fleet.PlanRelease(ctx, m.Host.ValueString(), record.Cordon.ID, true)
	if text := endText(end); err == nil && text != "" {
		detail += "\n\nIf this very plan ends it, and it has restore = true: " + text // It is tainted.
	}
	diags.AddAttributeWarning(path.Root("host"), summary, detail)
	return diags
}

// unfinishedText says which maintenance of the host is not finished: its drain, or its end, which has removed the
// cordon.
func unfinishedText(host string, record hostrecord.Record) string {
	if c := record.Cordon; c != nil {
		return fmt.Sprintf("Host %q is under an unfinished maintenance of %s since %s: %s", host, c.Owner,
			c.Since.Format(time.RFC3339), c.Why)
	}
	return fmt.Sprintf("The maintenance that drained host %q since %s is being ended, or its end failed", host,
		record.Evacuation.Since.Format(time.RFC3339))
}
