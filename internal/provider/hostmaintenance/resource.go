package hostmaintenance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/tfdiag"
)

// TypeName is the resource's full name.
const TypeName = "virtfleet_host_maintenance"

// noun is what errors call the resource.
const noun = "host maintenance"

// defaultTimeout leaves a full host the time to be copied elsewhere.
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

// Create cordons the host and empties it. What couldn't be done is an error, and what was done is in the state.
func (r *Resource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var plan model
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	timeout, diags := plan.Timeouts.Create(ctx, defaultTimeout)
	resp.Diagnostics.Append(diags...)
	want := plan.toFleet()
	want.Steps, diags = evacuation.ToFleet(ctx, plan.Steps)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	if !r.Asks("create", noun, &resp.Diagnostics) {
		return
	}
	began := time.Now()
	working, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	results, err := r.Data.Fleet.Drain(working, want)
	if err != nil {
		resp.Diagnostics.Append(plan.failure("begin", err, began).Error())
	}
	if results == nil && err != nil {
		return // Nothing was touched.
	}
	plan.take(results, err == nil)
	resp.Diagnostics.Append(resp.State.Set(ctx, &plan)...)
}

// Read compares with what the host has recorded. One that is silent may have been switched off for its maintenance.
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
	host := state.Host.ValueString()
	record, err := r.Data.Fleet.Record(ctx, host)
	var running []string
	if err == nil {
		running, err = r.Data.Fleet.RunningOn(ctx, host)
	}
	switch {
	case errors.Is(err, fleet.ErrUnreachable):
		f := state.failure("refresh", err, began)
		f.Remedy = "Its last known state is kept, since a host under maintenance may be switched off."
		resp.Diagnostics.Append(f.Warning())
		return
	case err != nil:
		resp.Diagnostics.Append(state.failure("read", err, began).Error())
		return
	case !record.Under(state.toFleet().ID):
		resp.State.RemoveResource(ctx) // Somebody has ended it.
		return
	}
	e := record.Evacuation
	if e == nil {
		e = &fleet.Evacuation{}
	}
	if record.Cordon != nil {
		state.readReason(record.Cordon.Why)
	}
	state.take(e.Steps, e.Done && record.Cordon != nil && len(running) == 0)
	resp.Diagnostics.Append(resp.State.Set(ctx, &state)...)
}

// Update empties the host again where machines have come to it, and tells it the reason. The rest is only remembered.
func (r *Resource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan, state model
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	timeout, diags := plan.Timeouts.Update(ctx, defaultTimeout)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	began := time.Now()
	working, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	want := plan.toFleet()
	want.Again = true
	if state.Drained.ValueBool() {
		if want.Why != state.toFleet().Why {
			if err := r.Data.Fleet.Cordon(working, want.Host, want.ID, want.Why); err != nil {
				resp.Diagnostics.Append(plan.failure("update", err, began).Error())
				return
			}
		}
		resp.Diagnostics.Append(resp.State.Set(ctx, &plan)...)
		return
	}
	results, err := r.Data.Fleet.Drain(working, want)
	if err != nil {
		resp.Diagnostics.Append(plan.failure("begin", err, began).Error())
	}
	if results == nil && err != nil {
		return
	}
	plan.take(results, err == nil)
	resp.Diagnostics.Append(resp.State.Set(ctx, &plan)...)
}

// Delete ends the maintenance.
func (r *Resource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var state model
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	timeout, diags := state.Timeouts.Delete(ctx, defaultTimeout)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	if !r.Asks("delete", noun, &resp.Diagnostics) {
		return
	}
	began := time.Now()
	host := state.Host.ValueString()
	if slices.Contains(r.Data.Fleet.HostNames(), host) && !slices.Contains(r.Data.Fleet.AskedHosts(), host) {
		return // The host was given up, and its record with it.
	}
	working, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := r.Data.Fleet.Release(working, host, state.toFleet().ID, state.Restore.ValueBool()); err != nil {
		resp.Diagnostics.Append(state.failure("end", err, began).Error())
	}
}

// ImportState takes over the maintenance of a host, by its name.
func (r *Resource) ImportState(
	ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse,
) {
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("id"), types.StringValue(req.ID))...)
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("host"), types.StringValue(req.ID))...)
}

// failure is an error about the maintenance on its way to the user.
func (m *model) failure(verb string, err error, began time.Time) tfdiag.Failure {
	host := m.Host.ValueString()
	return tfdiag.Failure{
		Verb: verb, Noun: fmt.Sprintf("maintenance of host %q", host), Host: host, Err: err, Elapsed: time.Since(began),
	}
}
