package volume

import (
	"context"
	"fmt"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// leavesVolumes is the title of an error about a storage pool that is planned elsewhere.
const leavesVolumes = "Storage pool leaves its volumes"

// ModifyPlan returns errors for plans that would lose data: a smaller size, and a move of the volume or of its pool,
// which the provider doesn't carry out. It also returns errors for the removal of a volume that an unreachable host may
// use, and of one that libvirt can't remove.
func (r *volumeResource) ModifyPlan(
	ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse,
) {
	if req.Plan.Raw.IsNull() {
		r.planDestroy(ctx, req, resp)
		return
	}
	if !r.Plans(noun, req, resp) {
		return
	}
	var host types.String
	resp.Diagnostics.Append(req.Plan.GetAttribute(ctx, path.Root("host"), &host)...)
	if _, ok := r.Data.Fleet.Connections().Host(host.ValueString()); !ok && !host.IsNull() && !host.IsUnknown() {
		resp.Diagnostics.AddAttributeError(path.Root("host"), "Unknown host", fmt.Sprintf(
			"%q is not a key of the provider's hosts.", host.ValueString()))
		return
	}
	resp.Diagnostics.Append(r.recordPlanned(ctx, req.Plan, req.State.Raw.IsNull(), host)...)
	if req.State.Raw.IsNull() {
		r.planCreate(ctx, req, resp, host)
		return
	}
	r.planUpdate(ctx, req, resp, host)
}

// planDestroy checks whether the volume can be removed, and warns about what uses it.
func (r *volumeResource) planDestroy(
	ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse,
) {
	if r.Data == nil || r.Data.Unknown {
		return
	}
	var state model
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() || state.refusesPlace(ctx, r.Data.Storage(), req.Private, "delete", &resp.Diagnostics) {
		return
	}
	resp.Diagnostics.Append(r.checkRemoval(ctx, &state)...)
	if err := state.checkMounted(ctx, r.Data.Storage(), req.Private); err != nil {
		resp.Diagnostics.Append(state.removalFailure(state.CurrentHost.ValueString(), err).Error())
	}
	resp.Diagnostics.Append(r.warnOfUsers(ctx, &state)...)
}

// planCreate checks the plan of a new volume.
func (r *volumeResource) planCreate(
	ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse, host types.String,
) {
	checkName(ctx, req, resp)
	checkUnit(ctx, req, resp)
	checkPreallocation(ctx, req, resp)
	r.checkPool(ctx, req, resp, host)
	r.checkSources(ctx, req, resp, host)
	r.checkNew(ctx, req, resp, host)
	r.warnWritten(ctx, req, resp, host)
	r.warnOfNamesakes(ctx, req, resp, host)
	r.checkReplaced(ctx, req, resp)
}

// planUpdate plans the changes of an existing volume: in place, or by a new one that replaces it.
func (r *volumeResource) planUpdate(
	ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse, host types.String,
) {
	var state model
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() || state.refusesPlace(ctx, r.Data.Storage(), req.Private, "read", &resp.Diagnostics) {
		return
	}
	r.noteForReplacement(ctx, &state, resp)
	resp.Diagnostics.Append(warnSnapshot(ctx, r.Data.Storage(), &state)...)
	resp.Diagnostics.Append(r.checkOwner(ctx, &state)...)
	as, diags := readImported(ctx, req.Private)
	resp.Diagnostics.Append(diags...)
	planned, is := attributes(req.Plan.Raw), attributes(req.State.Raw)
	names, unknown := replacements(planned, is, as)
	if slices.Contains(unknown, "image") && r.Data.Planned.ImageReplaced(state.Image.ValueString()) {
		names = append(names, "image") // An overlay goes before its image does.
	}
	names, diags = state.withoutDrift(ctx, req.Private, names, planned, is)
	if resp.Diagnostics.Append(diags...); diags.HasError() {
		return
	}
	switch {
	case len(names) > 0 && r.Data.Applies.Load():
		resp.Diagnostics.Append(state.refuseInApply(names)...)
		return
	case len(names) > 0:
		if as != nil {
			resp.Diagnostics.Append(state.checkDescription(names, is)...)
		}
		r.planReplacement(ctx, req, resp, &state, names)
		return
	}
	if diags := state.refuseConverted(ctx, req.Private); len(diags) > 0 {
		resp.Diagnostics.Append(diags...)
		return
	}
	resp.Diagnostics.Append(state.keeping(unknown, planned, is)...)
	resp.Diagnostics.Append(r.warnOfPassphrase(&state)...)
	checkPreallocation(ctx, req, resp)
	resp.Diagnostics.Append(r.checkPermissions(ctx, req.Plan, &state, as)...)
	r.checkStays(&state, resp)
	r.planSize(ctx, &state, resp)
	r.checkHost(ctx, &state, resp, host)
}

// planReplacement plans that a new volume replaces the existing one, because of the attributes with those names.
func (r *volumeResource) planReplacement(
	ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse, state *model, names []string,
) {
	for _, name := range names {
		resp.RequiresReplace.Append(path.Root(name))
	}
	checkName(ctx, req, resp)
	checkPreallocation(ctx, req, resp)
	resp.Diagnostics.Append(r.checkReplacement(ctx, state)...)
}

// checkHost returns an error if the volume would have to move to another host.
func (r *volumeResource) checkHost(
	ctx context.Context, state *model, resp *resource.ModifyPlanResponse, host types.String,
) {
	if host.IsNull() || host.IsUnknown() || host.Equal(state.Host) || host.Equal(state.CurrentHost) {
		return
	}
	if state.Host.IsNull() && r.isShared(ctx, state) {
		return
	}
	resp.Diagnostics.AddAttributeError(path.Root("host"), "Volumes move with their VMs", fmt.Sprintf(
		"%s is on host %q. Move the VM that uses it with its disks, or create another volume on %q.", state.noun(),
		state.CurrentHost.ValueString(), host.ValueString()))
}

// checkOwner returns an error if the volume becomes a disk of its own of a VM that was planned before.
func (r *volumeResource) checkOwner(ctx context.Context, state *model) (diags diag.Diagnostics) {
	own, ref := state.CurrentHost.ValueString(), state.ref()
	for host, vm := range r.Data.Volumes.Owners(ref.Pool, ref.Name) {
		if r.Data.Storage().SamePool(ctx, ref.Pool, host, own) {
			diags.Append(meta.OwnedTwice(path.Root("name"), ref.String(), vm))
		}
	}
	return diags
}

// recordPlanned records the volume, if its place is known, for the VMs whose disks are made from it, and the host that
// gets it. A new volume without a host is in the only pool of that name, or in one that all its hosts share: then there
// is no other volume of that name that could be mistaken for it.
func (r *volumeResource) recordPlanned(
	ctx context.Context, plan tfsdk.Plan, isNew bool, host types.String,
) (diags diag.Diagnostics) {
	var pool, name types.String
	diags.Append(plan.GetAttribute(ctx, path.Root("pool"), &pool)...)
	diags.Append(plan.GetAttribute(ctx, path.Root("name"), &name)...)
	id := storage.Ref{Pool: pool.ValueString(), Name: name.ValueString()}.String()
	r.Data.Planned.PlanVolume(id)
	if isNew && host.ValueString() != "" {
		r.Data.Planned.Plan(status.Volume, id, []string{host.ValueString()})
	}
	return diags
}

// isShared reports whether several hosts have the volume, as far as its host answers.
func (r *volumeResource) isShared(ctx context.Context, state *model) bool {
	s := r.Data.Storage()
	found := hostset.Found(storage.PoolOn(ctx, s.Hosts.Named(state.CurrentHost.ValueString()), state.Pool.ValueString()))
	return len(found) == 0 || found[0].Value.Shared
}

// checkStays returns an error if the same apply moves the volume's pool to another directory or to other storage.
func (r *volumeResource) checkStays(state *model, resp *resource.ModifyPlanResponse) {
	at, strays := r.Data.Planned.All().Strays(
		state.CurrentHost.ValueString(), state.Pool.ValueString(), state.Path.ValueString())
	if strays {
		resp.Diagnostics.AddAttributeError(path.Root("pool"), leavesVolumes, fmt.Sprintf(
			"%s is at %s, and its storage pool is planned in %s. What is in a pool isn't moved with it: the pool would not "+
				"have the volume any more. Keep target.path, or create another pool.", state.noun(), state.Path.ValueString(), at))
	}
	change := r.Data.Planned.PoolChange(state.CurrentHost.ValueString(), state.Pool.ValueString())
	if change.OtherStorage != "" {
		resp.Diagnostics.AddAttributeError(path.Root("pool"), leavesVolumes, fmt.Sprintf(
			"%s is in the storage pool as it is now, which is planned with %s. What is in a pool isn't moved with it: the pool "+
				"would not have the volume any more. %s", state.noun(), change.OtherStorage,
			meta.OtherStorageRemedy(state.Pool.ValueString())))
	}
}

// planSize keeps the state's text for the same size, and returns errors for a size that is smaller, or for which the
// pool has no room.
func (r *volumeResource) planSize(ctx context.Context, state *model, resp *resource.ModifyPlanResponse) {
	var size value.Quantity
	resp.Diagnostics.Append(resp.Plan.GetAttribute(ctx, path.Root("size"), &size)...)
	if size.Same(state.Size) {
		resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root("size"), state.Size)...)
		return
	}
	want, have := size.Bytes(), state.Size.Bytes()
	switch {
	case want == nil || have == nil:
	case *want < *have:
		resp.Diagnostics.AddAttributeError(path.Root("size"), "Volumes never shrink", fmt.Sprintf(
			"%s has %s, and size is %s: the data beyond that size would be lost. Set size to %[2]q or more.", state.noun(),
			state.Size.ValueString(), size.ValueString()))
	case *want > *have && (r.refusesGrowth(ctx, state, *want, resp) || r.refusesEncryptedGrowth(ctx, state, resp) ||
		r.refusesGrowthUnderJob(ctx, state, resp)):
	case *want > *have:
		if f := r.checkCopy(ctx, "grow", state); f != nil {
			f.Verb = "check the growth of" // It loses nothing, so it isn't refused.
			resp.Diagnostics.Append(diag.WithPath(path.Root("size"), f.Warning()))
		}
		more := storage.Demand{Growth: *want - *have}
		err := r.Data.Storage().CheckRoom(ctx, state.CurrentHost.ValueString(), state.Pool.ValueString(), more)
		resp.Diagnostics.Append(state.lackOfRoom("grow", state.CurrentHost.ValueString(), err)...)
	}
}
