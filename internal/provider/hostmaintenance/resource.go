package hostmaintenance

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/drain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/hostrecord"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/evacuationsteps"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/tfdiag"
)

// TypeName is the resource's full name.
const TypeName = "virtfleet_host_maintenance"

// noun is the resource's name in errors.
const noun = "host maintenance"

// defaultTimeout leaves enough time to copy a full host's VMs to other hosts.
const defaultTimeout = time.Hour

var (
	_ resource.ResourceWithConfigure   = (*Resource)(nil)
	_ resource.ResourceWithImportState = (*Resource)(nil)
	_ resource.ResourceWithModifyPlan  = (*Resource)(nil)
)

// Resource manages maintenances.
type Resource struct{ meta.Resource }

// NewResource is the constructor that the provider registers.
func NewResource() resource.Resource { return &Resource{meta.Resource{TypeName: TypeName}} }

// Create cordons the host and drains it. Failures are errors, and the steps that were done are in the state.
func (r *Resource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var plan model
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	want := plan.toFleet()
	steps, diags := evacuationsteps.ToFleet(ctx, plan.Steps)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	if !r.Asks("create", noun, &resp.Diagnostics) {
		return
	}
	plan.ID = types.StringValue(uuid.NewString())
	want.ID = plan.ID.ValueString()
	want.Steps = steps
	timeout, diags := plan.Timeouts.Create(ctx, defaultTimeout+r.copyTimeout(ctx, plan.Timeouts, "create", want))
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	began := time.Now()
	working, cancel := tfdiag.Limited(ctx, "timeouts.create", timeout)
	defer cancel()
	results, err := r.Data.Fleet.Drain(working, want)
	resp.Diagnostics.Append(forcedOff(results)...)
	resp.Diagnostics.Append(staying(results)...)
	if err != nil {
		resp.Diagnostics.Append(plan.failure("begin", err, began).Within(working).Error())
	}
	if results == nil && err != nil {
		return // Nothing was changed.
	}
	plan.setSteps(results, err == nil)
	resp.Diagnostics.Append(resp.State.Set(ctx, &plan)...)
	resp.Diagnostics.Append(meta.WritePrivate(ctx, resp.Private, privateRestarts, nil)...) // It may replace one.
}

// Read compares the state with the host's record. An unreachable host may have been switched off for its maintenance. A
// host that has another name in the provider's hosts by now is found by the maintenance's id. If the host has lost its
// record, the maintenance isn't over: the other hosts know of it.
func (r *Resource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var state model
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if !r.Asks("read", noun, &resp.Diagnostics) {
		return
	}
	began := time.Now()
	host, record, err := r.find(ctx, &state)
	state.Host = types.StringValue(host)
	var running []string
	if err == nil {
		running, err = r.Data.Fleet.RunningOn(ctx, host)
	}
	switch {
	case errors.Is(err, fleet.ErrUnreachable):
		f := state.failure("refresh", err, began)
		f.Remedy = "Its last known state is kept, since a host under maintenance may be switched off."
		resp.Diagnostics.Append(f.Warning())
		resp.Diagnostics.Append(resp.State.Set(ctx, &state)...) // The host may have another name by now.
		return
	case err != nil:
		resp.Diagnostics.Append(state.failure("read", err, began).Error())
		return
	case state.ID.IsNull():
		state.ID = types.StringValue(record.MaintenanceID()) // The resource is being imported.
	}
	if !record.Under(state.ID.ValueString()) {
		told := r.Data.Fleet.LostMaintenance(ctx, host, state.ID.ValueString(), &record)
		if told == nil { // Another run has ended it, unless it was unfinished and its record is lost.
			resp.Diagnostics.Append(state.leavesUnfinished(record)...)
			resp.State.RemoveResource(ctx)
			return
		}
		resp.Diagnostics.Append(state.readLost(told))
		resp.Diagnostics.Append(resp.State.Set(ctx, &state)...)
		return
	}
	e := record.Evacuation
	if e == nil {
		e = &hostrecord.Evacuation{}
	}
	if record.Cordon != nil {
		state.readReason(record.Cordon.Why)
	}
	state.setSteps(e.Steps, e.Done && record.Cordon != nil && len(running) == 0)
	resp.Diagnostics.Append(resp.State.Set(ctx, &state)...)
}

// readLost sets the state of a maintenance whose host has lost its record, from what the other hosts were told, and
// returns the warning about it. The next apply drains the host again.
func (m *model) readLost(told *hostrecord.Evacuation) diag.Diagnostic {
	m.Drained = types.BoolValue(false)
	kept := "The other hosts know what the drain changed: with restore = true, destroying the maintenance undoes it."
	if told.Abridged {
		kept = "What the drain moved isn't known any more, and isn't brought back."
	} else {
		m.setSteps(told.Steps, false)
	}
	return diag.NewAttributeWarningDiagnostic(path.Root("host"), "Host has lost the record of its maintenance",
		fmt.Sprintf("Host %q is no longer cordoned, and no run has ended its maintenance: the host was reinstalled, or a "+
			"user removed the record that virtfleet keeps there.\n\nApply to cordon the host again, and to drain it of VMs "+
			"that have come since. Or destroy the maintenance to end it. %s", m.Host.ValueString(), kept))
}

// leavesUnfinished warns that a maintenance leaves the state whose drain, or whose end, was not finished. Another one
// may have taken it over. If the host has no record any more, nothing that the drain did is undone: the other hosts
// know only of finished drains.
func (m *model) leavesUnfinished(record hostrecord.Record) (diags diag.Diagnostics) {
	switch c := record.Cordon; {
	case m.Drained.ValueBool():
		return nil
	case c != nil:
		diags.AddAttributeWarning(path.Root("host"), "Host is under another maintenance", fmt.Sprintf(
			"Host %q is cordoned by %s since %s: %s. The maintenance of this resource was not finished, and that one has taken "+
				"it over or followed it. The resource is removed from the state. What was moved is brought back only at the end "+
				"of that one, if it has restore = true.", m.Host.ValueString(), c.Owner, c.Since.Format(time.RFC3339), c.Why))
		return diags
	case record.Evacuation != nil:
		return nil // Another run has ended it. The record still has what is not undone.
	}
	var changed []string
	for _, e := range m.Results.Elements() {
		result, _ := e.(types.Object)
		text := func(name string) string {
			s, _ := result.Attributes()[name].(types.String)
			return s.ValueString()
		}
		switch text("result") {
		case hostrecord.ResultMoved, hostrecord.ResultColdMoved, hostrecord.ResultShutDown, hostrecord.ResultSaved:
			changed = append(changed, fmt.Sprintf("%q: %s", text("name"), text("result")))
		}
	}
	if len(changed) == 0 {
		return nil
	}
	diags.AddAttributeWarning(path.Root("host"), "Unfinished maintenance is no longer recorded", fmt.Sprintf(
		"Host %q has no record of this maintenance, which was not finished: another run has ended it, the host was "+
			"reinstalled, or a user removed the record. It is removed from the state. What it did with these virtual "+
			"machines isn't undone:\n  - %s\n\nStart or move them yourself where their resources don't.",
		m.Host.ValueString(), strings.Join(changed, "\n  - ")))
	return diags
}

// find returns the host that is under the maintenance, and its record. If none is, it returns the host of the state and
// its record. If a host that can't be asked may be under it, it returns ErrUnreachable.
func (r *Resource) find(ctx context.Context, state *model) (host string, record hostrecord.Record, err error) {
	host, id := state.Host.ValueString(), state.ID.ValueString()
	record, err = r.Data.Fleet.Record(ctx, host)
	if id == "" || err == nil && record.Under(id) {
		return host, record, err
	}
	now, unread, findErr := r.Data.Fleet.HostUnder(ctx, id)
	switch {
	case now != "":
		record, err = r.Data.Fleet.Record(ctx, now)
		return now, record, err
	case err == nil && findErr != nil:
		return host, record, findErr
	case len(unread) > 0 && (err == nil || errors.Is(err, fleet.ErrUnconfigured)):
		return host, record, &fleet.Error{
			Kind: fleet.ErrUnreachable,
			Detail: fmt.Sprintf("no host that answers is under this maintenance. These hosts may be: they don't answer, or "+
				"their record can't be read: %s", strings.Join(unread, ", ")),
		}
	}
	return host, record, err
}

// Update drains the host again if VMs have come to it or more VMs are to leave, and records the reason. Other changes
// only change the state.
func (r *Resource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan, state model
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	timeout, diags := plan.Timeouts.Update(ctx, defaultTimeout+r.copyTimeout(ctx, plan.Timeouts, "update", plan.toFleet()))
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	began := time.Now()
	working, cancel := tfdiag.Limited(ctx, "timeouts.update", timeout)
	defer cancel()
	want := plan.toFleet()
	want.Steps, diags = evacuationsteps.ToFleet(ctx, plan.Steps)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	if plan.leavesHost(&state) {
		if want.Why != state.toFleet().Why {
			if err := r.Data.Fleet.Cordon(working, want.Host, want.ID, want.Why); err != nil {
				resp.Diagnostics.Append(plan.failure("update", err, began).Within(working).Error())
				return
			}
		}
		resp.Diagnostics.Append(resp.State.Set(ctx, &plan)...)
		return
	}
	results, err := r.Data.Fleet.Drain(working, want)
	resp.Diagnostics.Append(forcedOff(results)...)
	resp.Diagnostics.Append(staying(results)...)
	if err != nil {
		resp.Diagnostics.Append(plan.failure("begin", err, began).Within(working).Error())
	}
	if results == nil && err != nil {
		return
	}
	plan.setSteps(results, err == nil)
	resp.Diagnostics.Append(resp.State.Set(ctx, &plan)...)
}

// forcedOff warns of the guests that this drain forced off.
func forcedOff(steps []hostrecord.RecordedStep) diag.Diagnostics {
	var forced []fleet.ForcedOff
	for _, s := range steps {
		if s.ForcedOff != nil {
			forced = append(forced, *s.ForcedOff)
		}
	}
	return tfdiag.ForcedOff(forced...)
}

// staying warns of the originals of copied disks that this drain was to remove and didn't. One warning names all of
// them, because Terraform shows only the first of several with one title.
func staying(steps []hostrecord.RecordedStep) (diags diag.Diagnostics) {
	var all []string
	for _, s := range steps {
		for _, file := range s.Stay {
			all = append(all, fmt.Sprintf("virtual machine %q: %s", s.Name, file))
		}
	}
	if len(all) > 0 {
		diags.AddWarning(tfdiag.DisksKept, "These originals of copied disks were to be removed, and stay:\n  - "+
			strings.Join(all, "\n  - "))
	}
	diags.Append(lostCheckpoints(steps)...)
	return diags
}

// lostCheckpoints warns of checkpoints that the drain's moves couldn't bring along.
func lostCheckpoints(steps []hostrecord.RecordedStep) diag.Diagnostics {
	lost := map[string][]string{}
	for _, s := range steps {
		lost[s.Name] = append(lost[s.Name], s.LostCheckpoints...)
	}
	return tfdiag.LostCheckpoints(lost)
}

// Delete ends the maintenance.
func (r *Resource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var state model
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	timeout, diags := state.Timeouts.Delete(ctx, defaultTimeout+r.backTimeout(ctx, &state))
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	if !r.Asks("delete", noun, &resp.Diagnostics) {
		return
	}
	restore := drain.Restore{Wanted: state.Restore.ValueBool()}
	var planned []string
	known, diags := meta.ReadPrivate(ctx, req.Private, privateRestarts, &planned)
	resp.Diagnostics.Append(diags...)
	if known {
		restore.Restarts = &planned
	}
	began := time.Now()
	host := state.Host.ValueString()
	working, cancel := tfdiag.Limited(ctx, "timeouts.delete", timeout)
	defer cancel()
	released, err := r.Data.Fleet.Release(working, host, state.toFleet().ID, restore)
	resp.Diagnostics.Append(tfdiag.ForcedOff(released.ForcedOff...)...)
	if unrestored := released.Unrestored; len(unrestored) > 0 {
		resp.Diagnostics.AddWarning("Not all virtual machines were brought back", fmt.Sprintf(
			"The maintenance of host %q has ended. These virtual machines stay as they are:\n  - %s\n\nIf two "+
				"maintenances end in one apply, either may end first. Move and start the virtual machines as you want them.",
			host, strings.Join(unrestored, "\n  - ")))
	}
	if err != nil {
		resp.Diagnostics.Append(state.failure("end", err, began).Within(working).Error())
	}
}

// ImportState imports the maintenance of a host, by the host's name.
func (r *Resource) ImportState(
	ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse,
) {
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("host"), types.StringValue(req.ID))...)
}

// failure turns an error about the maintenance into one for the user.
func (m *model) failure(verb string, err error, began time.Time) tfdiag.Failure {
	host := m.Host.ValueString()
	return tfdiag.Failure{
		Verb: verb, Noun: fmt.Sprintf("maintenance of host %q", host), Host: host, Err: err, Elapsed: time.Since(began),
	}
}
