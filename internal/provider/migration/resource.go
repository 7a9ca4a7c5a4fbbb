package migration

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	fleetmigration "github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/migrationoptions"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/tfdiag"
)

// TypeName is the resource's full name.
const TypeName = "virtfleet_migration"

// noun is the resource's name in errors.
const noun = "migration"

// Default timeouts.
const (
	// A migration that makes no progress ends by itself. An hour leaves room for earlier migrations in the queue.
	createTimeout = time.Hour
	readTimeout   = 2 * time.Minute
	// An abort takes seconds. Five minutes leave room for an abort that comes too late.
	deleteTimeout = 5 * time.Minute
)

const (
	// privateLast is the key of the entry in the private state that says where the VM was last.
	privateLast = "last"
	// privatePlanned is the id of the planned migration. If Terraform then plans a new one in its place, it is the id of
	// the migration that is replaced.
	privatePlanned = "planned"
)

var (
	_ resource.ResourceWithConfigure   = (*Resource)(nil)
	_ resource.ResourceWithImportState = (*Resource)(nil)
	_ resource.ResourceWithModifyPlan  = (*Resource)(nil)
)

// Resource moves VMs.
type Resource struct{ meta.Resource }

// NewResource is the constructor that the provider registers.
func NewResource() resource.Resource { return &Resource{meta.Resource{TypeName: TypeName}} }

// copyTimeout returns how much longer the migration may take than the default timeout: the time after which it ends by
// itself, doubled because a disruption doubles it. It counts memory and the disks that are copied.
func (r *Resource) copyTimeout(ctx context.Context, plan model) time.Duration {
	budget, err := r.Data.Fleet.MoveBudget(ctx, plan.moveOrder(fleet.LastKnown{}))
	if err != nil {
		return 0 // The migration reports the error.
	}
	return 2 * budget
}

// Create moves the VM. A failed migration is in the state, too, so that users can read it. What Terraform destroys
// before it tries again is the record of that migration, not a VM.
func (r *Resource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var plan model
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	if resp.Diagnostics.HasError() || !r.Asks("run", noun, &resp.Diagnostics) {
		return
	}
	timeout, diags := plan.Timeouts.Create(ctx, createTimeout+r.copyTimeout(ctx, plan))
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}

	began := time.Now()
	ctx, cancel := tfdiag.Limited(ctx, "timeouts.create", timeout)
	defer cancel()
	written := r.Data.Written.Writing(TypeName, plan.plannedID().ValueString())
	defer func() { written([]string{plan.VirtualMachineID.ValueString()}) }()
	vm, record, err := r.Data.Fleet.MoveOnce(ctx, plan.moveOrder(fleet.LastKnown{}))
	if err != nil {
		failure := plan.failure("complete", err).Within(ctx)
		failure.Elapsed = time.Since(began)
		resp.Diagnostics.Append(failure.Error())
	}
	resp.Diagnostics.Append(warnings(vm, record, err)...)
	plan.ID = plan.plannedID()
	plan.fromRecord(record)
	// The result is in the state even if the apply was cancelled. Setting it asks no host.
	resp.Diagnostics.Append(resp.State.Set(context.WithoutCancel(ctx), &plan)...)
	resp.Diagnostics.Append(saveLastKnown(ctx, resp.Private, vm)...)
}

// warnings are about the VM after the migration, nil if that is unknown: an abort that came too late, and disks that
// stay on the host that the VM came from.
func warnings(vm *fleet.VM, record domain.Migration, err error) diag.Diagnostics {
	if vm == nil {
		return nil
	}
	late := migrationoptions.AbortWarning(record.AbortStatus, err != nil, fleetmigration.Mode(record.Mode), vm.Name,
		vm.Host)
	late = append(late, tfdiag.KeptDisks(vm)...)
	return append(late, tfdiag.LostCheckpoints(map[string][]string{vm.Name: vm.LostCheckpoints})...)
}

// Read reads the record of a migration that didn't succeed. A successful migration stays as it is, and so does one
// whose VM is gone, because the past doesn't change.
func (r *Resource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var state model
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	timeout, diags := state.Timeouts.Read(ctx, readTimeout)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() || state.Phase.ValueString() == fleetmigration.PhaseSucceeded {
		return
	}
	if !r.Asks("read", noun, &resp.Diagnostics) {
		return
	}

	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	last, diags := lastKnown(ctx, req.Private)
	resp.Diagnostics.Append(diags...)
	vm, record, err := r.Data.Fleet.MigrationRecord(ctx, state.VirtualMachineID.ValueString(), last,
		state.ID.ValueString())
	switch {
	case errors.Is(err, fleet.ErrNotFound):
		return
	case errors.Is(err, fleet.ErrUnreachable) && r.Data.OnUnreachable == meta.OnUnreachableKeep:
		failure := state.failure("refresh", err)
		failure.Remedy = "Its last known state is kept, because on_unreachable is \"keep\"."
		resp.Diagnostics.Append(failure.Warning())
		return
	case err != nil:
		resp.Diagnostics.Append(state.failure("read", err).Error())
		return
	}
	if record != nil && !state.isNewer(*record) &&
		(record.Completed() || record.Failed || record.Phase == fleetmigration.PhaseRunning) {
		state.fromRecord(*record)
		resp.Diagnostics.Append(resp.State.Set(ctx, &state)...)
	}
	resp.Diagnostics.Append(saveLastKnown(ctx, resp.Private, vm)...)
}

// Update sets the values that count for the next migration. The plan already has all of them.
func (r *Resource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan model
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(resp.State.Set(ctx, &plan)...)
}

// Delete aborts a running migration and forgets it. The VM stays where it is.
func (r *Resource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var state model
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	timeout, diags := state.Timeouts.Delete(ctx, deleteTimeout)
	resp.Diagnostics.Append(diags...)
	last, diags := lastKnown(ctx, req.Private)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	if !r.Asks("delete", noun, &resp.Diagnostics) {
		return
	}

	ctx, cancel := tfdiag.Limited(ctx, "timeouts.delete", timeout)
	defer cancel()
	created, removed := r.Data.Written.Removing(TypeName, state.ID.ValueString())
	defer removed()
	if len(created) > 0 {
		resp.Diagnostics.Append(state.createdBefore()...)
		return
	}
	id := state.VirtualMachineID.ValueString()
	record, err := r.Data.Fleet.WithdrawMigration(ctx, id, last, state.ID.ValueString())
	switch {
	case errors.Is(err, fleet.ErrNotFound):
	case err != nil:
		resp.Diagnostics.Append(state.failure("delete", err).Within(ctx).Error())
	case record != nil && !record.Failed && state.Phase.ValueString() != fleetmigration.PhaseSucceeded:
		resp.Diagnostics.AddWarning("Migration has succeeded", fmt.Sprintf(
			"The migration of virtual machine %s was over before it could be aborted. It is on host %q.", id,
			record.TargetHost))
	}
}

// createdBefore is the result of destroying a migration after the same one was created again: its record now belongs to
// the new resource. If the migration had succeeded, the new resource has taken over its record and moved nothing.
func (m *model) createdBefore() diag.Diagnostics {
	if m.Phase.ValueString() != fleetmigration.PhaseSucceeded {
		return nil
	}
	return diag.Diagnostics{diag.NewWarningDiagnostic("Migration was not run again", fmt.Sprintf(
		"Virtual machine %s was not moved: Terraform created the new migration before it destroyed the old one, and a "+
			"migration with the same virtual_machine_id, target_host and triggers is run only once. "+
			"To move the VM again, change triggers, or remove create_before_destroy from the lifecycle and use -replace.",
		m.VirtualMachineID.ValueString()))}
}

// failure turns an error about the migration into one for the user.
func (m *model) failure(verb string, err error) tfdiag.Failure {
	f := tfdiag.Failure{Verb: verb, Noun: noun, Err: err}
	if e, ok := errors.AsType[*fleet.Error](err); !ok || e.VM == "" {
		f.VirtualMachine = m.VirtualMachineID.ValueString()
	}
	return f
}

// saveLastKnown records where the VM was last, so that it doesn't count as gone while that host is unreachable.
func saveLastKnown(ctx context.Context, to meta.PrivateWriter, vm *fleet.VM) diag.Diagnostics {
	if vm == nil {
		return nil
	}
	return meta.WritePrivate(ctx, to, privateLast, fleet.LastKnown{Host: vm.Host, HostUUID: vm.HostUUID})
}

// lastKnown returns the recorded place. Without a record the fleet finds the VM, too.
func lastKnown(ctx context.Context, from meta.PrivateReader) (fleet.LastKnown, diag.Diagnostics) {
	var last fleet.LastKnown
	found, diags := meta.ReadPrivate(ctx, from, privateLast, &last)
	if !found {
		return fleet.LastKnown{}, diags
	}
	return last, diags
}
