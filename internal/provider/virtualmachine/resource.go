package virtualmachine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/resource"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/tfdiag"
)

// TypeName is the resource's full name.
const TypeName = "virtfleet_virtual_machine"

// noun is the resource's name in errors.
const noun = "virtual machine"

// Default timeouts. Waiting for the guest to become ready or to shut down is added, because users set how long that may
// take.
const (
	// Writing a definition and starting QEMU takes seconds. Ten minutes leave room for a lock that another run holds
	// while it shuts a guest down.
	createTimeout = 10 * time.Minute
	updateTimeout = 10 * time.Minute
	deleteTimeout = 5 * time.Minute
	// The provider gives up on an unreachable host after seconds. Two minutes leave room for a whole fleet on a slow
	// link.
	readTimeout = 2 * time.Minute
	// finishTimeout bounds the two short calls that complete a creation, on a host that may be busy.
	finishTimeout = time.Minute
)

var (
	_ resource.ResourceWithConfigure      = (*Resource)(nil)
	_ resource.ResourceWithImportState    = (*Resource)(nil)
	_ resource.ResourceWithModifyPlan     = (*Resource)(nil)
	_ resource.ResourceWithValidateConfig = (*Resource)(nil)
)

// Resource manages virtual machines.
type Resource struct{ meta.Resource }

// NewResource is the constructor that the provider registers.
func NewResource() resource.Resource { return &Resource{meta.Resource{TypeName: TypeName}} }

// Create creates the VM. After the VM exists, Create returns no more errors, because Terraform would destroy the VM.
// Problems become a warning, ready = false, and changes in the next plan.
func (r *Resource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var plan, config model
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	timeout, diags := plan.Timeouts.Create(ctx, createTimeout)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	if !r.Asks("create", noun, &resp.Diagnostics) {
		return
	}
	if status.StartsOnCreate(plan.runStrategy()) {
		_, diags := r.refuseFenced(ctx, &plan)
		if resp.Diagnostics.Append(diags...); resp.Diagnostics.HasError() {
			return
		}
	}

	began := time.Now()
	working, cancel := tfdiag.Limited(ctx, "timeouts.create", timeout)
	defer cancel()
	desired := config.withProfile().toFleet(nil)
	desired.Made = r.Data.Volumes.AllMade()
	vm, err := r.Data.Fleet.Create(working, desired)
	if vm == nil {
		resp.Diagnostics.Append(failureAt(plan.failureAfter("create", err, began).Within(working)))
		return
	}
	if err != nil {
		resp.Diagnostics.Append(plan.failureAfter("complete", err, began).Within(working).Warning())
	}

	seen := observation{vm: vm}
	resp.Diagnostics.Append(resp.State.Set(ctx, stateAfterCreate(seen, &plan))...)
	finishing := ctx
	switch {
	case err != nil && working.Err() != nil:
		finishing = working // The timeout has expired while the VM is starting.
	case err != nil && !vm.Active:
		// It was completed, and its guest isn't run a second time: there is nothing to wait for.
	case status.StartsOnCreate(plan.runStrategy()):
		if seen, err = r.waitUntilReady(ctx, seen, &plan); err != nil {
			resp.Diagnostics.Append(plan.failureAfter("wait for", err, began).Warning())
		}
	}
	if err := r.finishCreate(finishing, seen.vm); err != nil {
		resp.Diagnostics.Append(plan.failureAfter("complete", err, began).Warning())
	}
	now := stateAfterCreate(seen, &plan)
	resp.Diagnostics.Append(resp.State.Set(ctx, now)...)
	resp.Diagnostics.Append(writeLive(ctx, resp.Private, seen.vm)...)
	resp.Diagnostics.Append(writeRecorded(ctx, resp.Private, seen.vm)...)
	resp.Diagnostics.Append(writeDefined(ctx, resp.Private, seen.vm)...)
	resp.Diagnostics.Append(writeOwn(ctx, resp.Private, seen.vm, false)...)
	resp.Diagnostics.Append(writeApplied(ctx, resp.Private, now, &plan)...)
	resp.Diagnostics.Append(meta.WritePrivate(ctx, resp.Private, privateReplaced, nil)...)
}

// finishCreate completes a creation, even a cancelled one.
func (r *Resource) finishCreate(ctx context.Context, vm *fleet.VM) error {
	ctx, cancel := context.WithTimeout(ctx, finishTimeout)
	defer cancel()
	return r.Data.Fleet.FinishCreate(ctx, vm)
}

// Read has three results: the VM was found, it is proven to be gone, or neither is known.
func (r *Resource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var state model
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	timeout, diags := state.readTimeout(ctx)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	if !r.Asks("read", noun, &resp.Diagnostics) {
		return
	}

	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	seen, err := r.observeVM(ctx, &state)
	if isGone(err) {
		// It may run on a host that only another configuration has.
		err = cmp.Or(r.Data.Fleet.VerifyNotMoved(ctx, text(state.ID), text(state.Name), state.lastKnown()), err)
	}
	switch {
	case isGone(err):
		resp.Diagnostics.Append(r.checkFenced(ctx, &state)...)
		if resp.Diagnostics.HasError() {
			return
		}
		resp.Diagnostics.Append(state.warnSharedWith(r.Data.Fleet.FencedHosts())...)
		resp.Diagnostics.Append(state.warnLost(r.Data.Fleet.FencedHosts())...)
		resp.Diagnostics.Append(state.warnMadeAnew(r.Data.Fleet.FencedHosts())...)
		resp.Diagnostics.Append(state.warnReusedDisks()...)
		resp.State.RemoveResource(ctx)
		return
	case errors.Is(err, fleet.ErrUnreachable) && !state.Name.IsNull() &&
		r.switchedOff(ctx, text(state.CurrentHost), &state):
		failure := state.failureAfter("refresh", err, began)
		failure.Remedy = "Its last known state is kept, because its host is under maintenance and may be switched off."
		resp.Diagnostics.Append(failure.Warning())
		return
	case errors.Is(err, fleet.ErrUnreachable) && r.Data.OnUnreachable == meta.OnUnreachableKeep && !state.Name.IsNull():
		failure := state.failureAfter("refresh", err, began)
		failure.Remedy = "Its last known state is kept, because on_unreachable is \"keep\"."
		resp.Diagnostics.Append(failure.Warning())
		return
	case err != nil:
		resp.Diagnostics.Append(state.failureAfter("read", err, began).Error())
		return
	}

	if state.Name.IsNull() {
		state.RunStrategy = observedStrategy(seen.vm)
		resp.Diagnostics.Append(meta.WritePrivate(ctx, resp.Private, privateImported, true)...)
		resp.Diagnostics.Append(warnOnlyRunning(seen.vm)...)
		resp.Diagnostics.Append(meta.WritePrivate(ctx, resp.Private, privateOnlyRunning, onlyRunning(seen.vm))...)
		if !seen.vm.Persistent {
			resp.Diagnostics.Append(meta.WritePrivate(ctx, resp.Private, privateTransient, true)...)
		}
	}
	now, changed, diags := stateAfterRefresh(ctx, seen, &state, resp.Private)
	resp.Diagnostics.Append(diags...)
	if changed {
		resp.Diagnostics.Append(resp.State.Set(ctx, now)...)
	}
}

// Update changes the VM in place, then waits for the VM to become ready. If Update fails, the VM stays, and the state
// says which changes were made.
func (r *Resource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan, config, state model
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if !r.Asks("update", noun, &resp.Diagnostics) {
		return
	}
	p, diags := r.planning(ctx, &config, &state, req.Private)
	resp.Diagnostics.Append(diags...)
	timeout, diags := plan.Timeouts.Update(ctx,
		updateTimeout+plan.TerminationGracePeriod.Or(fleet.DefaultGracePeriod)+r.moveTimeout(ctx, p))
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}

	began := time.Now()
	working, cancel := tfdiag.Limited(ctx, "timeouts.update", timeout)
	defer cancel()
	desired := config.toFleet(&state)
	desired.Spec, _ = p.takeBack(desired.Spec)
	o := p.plan()
	if o.starts() {
		if _, diags := r.refuseFenced(ctx, &state); diags.HasError() {
			resp.Diagnostics.Append(diags...)
			return
		}
	}
	desired.UpdatePolicy, desired.Power, desired.Migration = o.policy, o.power, config.migrationOptions()
	desired.Transient, desired.Lost, desired.Known = p.transient, p.lost, p.defined.devices()
	desired.Applied, desired.Made = p.applied, r.Data.Volumes.AllMade()
	desired.StaysRunning = p.staysRunning(desired.Spec)
	last, vm, late, err := r.move(working, p, desired)
	resp.Diagnostics.Append(late...)
	if err != nil {
		resp.Diagnostics.Append(failureAt(plan.failureOn(last, "move", err, began).Within(working)))
	} else {
		moved := vm
		if vm, err = r.Data.Fleet.Update(working, text(state.ID), last, desired); err != nil {
			f := plan.withinGrace(plan.failureOn(last, "update", err, began).Within(working))
			resp.Diagnostics.Append(failureAt(f))
		}
		switch {
		case vm == nil:
			vm = moved
		case moved != nil:
			vm.LostCheckpoints = moved.LostCheckpoints
			for _, kept := range moved.KeptDisks {
				if !slices.Contains(vm.KeptDisks, kept) { // The update has tried again.
					vm.KeptDisks = append(vm.KeptDisks, kept)
				}
			}
		}
	}
	if vm == nil {
		return
	}
	if vm.Stopped.Forced() {
		resp.Diagnostics.Append(tfdiag.ForcedOff(
			fleet.ForcedOff{Name: vm.Name, Host: vm.Host, How: string(vm.Stopped)})...)
	}
	resp.Diagnostics.Append(tfdiag.KeptDisks(vm)...)
	resp.Diagnostics.Append(tfdiag.LostCheckpoints(map[string][]string{vm.Name: vm.LostCheckpoints})...)

	seen := observation{vm: vm}
	if err != nil {
		plan.keepUnreached(&state, vm)
	}
	if err == nil && plan.Ready.ValueBool() {
		seen, err = r.waitUntilReady(ctx, seen, &plan)
		if err != nil {
			resp.Diagnostics.Append(plan.failureAfter("wait for", err, began).Error())
		}
	}
	r.saveUpdated(ctx, seen, &plan, &state, desired.Spec, resp)
}

// Delete removes the VM. If the VM is already gone, Delete succeeds.
func (r *Resource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var state model
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	grace := state.TerminationGracePeriod.Or(fleet.DefaultGracePeriod)
	timeout, diags := state.Timeouts.Delete(ctx, deleteTimeout+grace)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	if state.DeletionProtection.ValueBool() {
		resp.Diagnostics.Append(protectedError(&state))
		return
	}
	if !r.Asks("delete", noun, &resp.Diagnostics) {
		return
	}

	last := state.lastKnown()
	_, diags = meta.ReadPrivate(ctx, req.Private, privateDestroyedOff, &last.Off)
	resp.Diagnostics.Append(diags...)

	began := time.Now()
	ctx, cancel := tfdiag.Limited(ctx, "timeouts.delete", timeout)
	defer cancel()
	report, err := r.Data.Fleet.Delete(ctx, text(state.ID), last, grace)
	if err != nil {
		f := state.withinGrace(state.failureAfter("delete", err, began).Within(ctx))
		resp.Diagnostics.Append(f.Error())
		return
	}
	if report != nil && len(report.KeptDisks) > 0 {
		resp.Diagnostics.AddWarning(tfdiag.DisksKept, fmt.Sprintf(
			"Virtual machine %q is gone from host %q. These disks of it stay:\n  - %s",
			text(state.Name), report.Host, strings.Join(report.KeptDisks, "\n  - ")))
	}
	if report != nil && len(report.SilentHosts) > 0 {
		resp.Diagnostics.AddWarning("Definition of the virtual machine may be left", fmt.Sprintf(
			"Virtual machine %[1]q is gone from host %[2]q. These hosts didn't answer: %[3]s. If one of them still has a "+
				"definition of the VM that starts with its host, the VM starts there again.\n\nWhen they are back, run \"virsh "+
				"dominfo %[4]s\" on each. If a host has the VM, run \"virsh undefine --nvram --managed-save %[4]s\" there.",
			text(state.Name), report.Host, strings.Join(report.SilentHosts, ", "), text(state.ID)))
	}
	if report != nil && report.Outcome.Forced() {
		resp.Diagnostics.Append(tfdiag.ForcedOff(
			fleet.ForcedOff{Name: text(state.Name), Host: report.Host, How: string(report.Outcome)})...)
	}
}
