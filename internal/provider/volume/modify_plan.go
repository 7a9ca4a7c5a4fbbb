package volume

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/onhosts"
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
	if req.Plan.Raw.IsNull() && r.Data != nil && !r.Data.Unknown {
		var state model
		resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
		if !resp.Diagnostics.HasError() &&
			!state.refusesPlace(ctx, r.Data.Storage(), req.Private, "delete", &resp.Diagnostics) {
			resp.Diagnostics.Append(r.checkRemoval(ctx, &state)...)
			resp.Diagnostics.Append(r.warnOfUsers(ctx, &state)...)
		}
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
		for _, name := range names {
			resp.RequiresReplace.Append(path.Root(name))
		}
		if as != nil {
			resp.Diagnostics.Append(state.checkDescription(names, is)...)
		}
		checkName(ctx, req, resp)
		checkPreallocation(ctx, req, resp)
		resp.Diagnostics.Append(r.checkReplacement(ctx, &state)...)
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
	if !host.IsNull() && !host.IsUnknown() && !host.Equal(state.Host) && !host.Equal(state.CurrentHost) &&
		(!state.Host.IsNull() || !r.isShared(ctx, &state)) {
		resp.Diagnostics.AddAttributeError(path.Root("host"), "Volumes move with their VMs", fmt.Sprintf(
			"%s is on host %q. Move the VM that uses it with its disks, or create another volume on %q.", state.noun(),
			state.CurrentHost.ValueString(), host.ValueString()))
	}
}

// planCreate checks the plan of a new volume.
func (r *volumeResource) planCreate(
	ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse, host types.String,
) {
	checkName(ctx, req, resp)
	checkUnit(ctx, req, resp)
	checkPreallocation(ctx, req, resp)
	r.checkPool(ctx, req, resp, host)
	r.checkNew(ctx, req, resp, host)
	r.warnWritten(ctx, req, resp, host)
	r.warnOfNamesakes(ctx, req, resp, host)
	r.checkReplaced(ctx, req, resp)
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
	case *want > *have && (r.refusesGrowth(ctx, state, *want, resp) || r.refusesEncryptedGrowth(ctx, state, resp)):
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

// checkName returns an error for a name under which libvirt creates no encrypted volume. An imported volume keeps its
// name.
func checkName(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	var name types.String
	var encryption types.Object
	resp.Diagnostics.Append(req.Plan.GetAttribute(ctx, path.Root("name"), &name)...)
	resp.Diagnostics.Append(req.Plan.GetAttribute(ctx, path.Root("encryption"), &encryption)...)
	if encryption.IsNull() || encryption.IsUnknown() || name.IsUnknown() || libvirt.EncryptableName(name.ValueString()) {
		return
	}
	resp.Diagnostics.AddAttributeError(path.Root("name"), "Invalid volume", fmt.Sprintf(
		"libvirt creates no encrypted volume with name = %q: %s.\n\nChoose another name, or remove encryption.",
		name.ValueString(), libvirt.NameRuleOfEncrypted))
}

// checkUnit returns an error for a size whose unit is missing. An imported volume may be that small.
func checkUnit(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	var size value.Quantity
	resp.Diagnostics.Append(req.Plan.GetAttribute(ctx, path.Root("size"), &size)...)
	if why := size.LacksUnit(); why != "" {
		resp.Diagnostics.AddAttributeError(path.Root("size"), "Invalid volume", why)
	}
}

// checkPreallocation returns an error for tables that the format doesn't have, and for an overlay, which libvirt always
// makes thin.
func checkPreallocation(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	var format, preallocation, image, clone types.String
	for name, into := range map[string]*types.String{
		"format": &format, "preallocation": &preallocation, "image": &image, "clone": &clone,
	} {
		resp.Diagnostics.Append(req.Plan.GetAttribute(ctx, path.Root(name), into)...)
	}
	wants := preallocation.ValueString()
	why := ""
	switch {
	case wants == "" || wants == storage.PreallocationOff:
	case !image.IsNull() && !clone.IsUnknown() && clone.ValueString() != cloneFull:
		why = fmt.Sprintf("An overlay of an image can't have preallocation = %q.\n\nSet clone = %q.", wants, cloneFull)
	case wants == storage.PreallocationMetadata && !format.IsNull() && !format.IsUnknown() &&
		format.ValueString() != "qcow2":
		why = fmt.Sprintf("preallocation = %q is for the format \"qcow2\", and format is %q.\n\nSet preallocation to %q or "+
			"%q.", wants, format.ValueString(), storage.PreallocationOff, storage.PreallocationFull)
	}
	if why != "" {
		resp.Diagnostics.AddAttributeError(path.Root("preallocation"), "Invalid volume", why)
	}
}

// checkPool returns an error if no host has the volume's pool, if several have it and none is chosen, or if libvirt
// can't create the volume in it. If the same apply changes the pool, only the last of these is checked.
func (r *volumeResource) checkPool(
	ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse, host types.String,
) {
	var plan model
	for name, into := range map[string]*types.String{
		"name": &plan.Name, "pool": &plan.Pool, "preallocation": &plan.Preallocation, "image": &plan.Image,
		"clone": &plan.Clone, "copy_of": &plan.CopyOf, "format": &plan.Format,
	} {
		resp.Diagnostics.Append(req.Plan.GetAttribute(ctx, path.Root(name), into)...)
	}
	plan.Host = host
	if resp.Diagnostics.HasError() || plan.Pool.IsUnknown() || host.IsUnknown() {
		return
	}
	if plan.Clone.IsUnknown() {
		plan.Clone = types.StringValue(cloneFull) // It may be, and the apply checks again.
	}
	s, pool := r.Data.Storage(), plan.Pool.ValueString()
	hosts := s.Hosts.Present()
	if !host.IsNull() {
		hosts = hosts.Named(host.ValueString())
	}
	if r.Data.Planned.HasPool(pool) {
		for _, name := range hosts.Names() {
			if is, ok := r.Data.Planned.Pool(name, pool); ok && refusesVolume(&plan, name, is, &resp.Diagnostics) {
				return
			}
		}
		return
	}
	found, err := s.CheckPool(ctx, hosts, pool)
	for _, a := range found {
		if refusesVolume(&plan, a.Host, a.Value.Pool, &resp.Diagnostics) {
			return
		}
	}
	if err != nil {
		f := plan.failure("create", host.ValueString(), err)
		f.Remedy = onhosts.PoolRemedy
		resp.Diagnostics.Append(f.AttributeError(path.Root("pool")))
	}
	if host.IsNull() && len(found) > 1 {
		if _, d := r.chooseHost(ctx, s, &plan); d != nil {
			resp.Diagnostics.Append(d)
		}
	}
}

// checkExists returns a warning if the host has another volume of the name, as far as its pool knows that. It is none
// while the state has a volume of the name: that may be replaced.
func (r *volumeResource) checkExists(ctx context.Context, host string, plan *model) (diags diag.Diagnostics) {
	ref := plan.ref()
	moves := r.Data.Planned.PoolChange(host, ref.Pool).OtherStorage != ""
	if ref.Name == "" || moves || len(r.Data.Volumes.Hosts(ref.Pool, ref.Name)) > 0 {
		return nil
	}
	if err := r.Data.Storage().CheckNew(ctx, host, ref); errors.Is(err, libvirt.ErrExists) {
		f := r.existsFailure(ctx, host, plan, err)
		f.Happened = "the apply fails if it has to create it"
		diags.Append(diag.WithPath(path.Root("name"), f.Warning()))
	}
	return diags
}

// checkNew returns an error if the size is less than that of the volume's source, if that is already known.
func (r *volumeResource) checkNew(
	ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse, host types.String,
) {
	var size value.Quantity
	resp.Diagnostics.Append(req.Plan.GetAttribute(ctx, path.Root("size"), &size)...)
	for _, name := range []string{"image", "copy_of"} {
		var id types.String
		resp.Diagnostics.Append(req.Plan.GetAttribute(ctx, path.Root(name), &id)...)
		ref := refOf(id)
		if ref == nil || size.Bytes() == nil {
			continue
		}
		hosts := r.Data.Fleet.Connections()
		if !host.IsNull() && !host.IsUnknown() {
			hosts = hosts.Named(host.ValueString())
		}
		for _, a := range hostset.Found(r.Data.Storage().Volume(ctx, hosts, *ref)) {
			source := *a.Value
			if source.CapacityBytes > *size.Bytes() && name == "copy_of" {
				if seen, err := r.Data.Storage().SeenByGuests(ctx, a.Host, source); err == nil {
					source = seen
				}
			}
			if source.CapacityBytes > *size.Bytes() {
				resp.Diagnostics.AddAttributeError(path.Root("size"), "Volume too small", fmt.Sprintf(
					"size is %s, and %s = %q has %s on host %q.", size.ValueString(), name, id.ValueString(),
					domain.ExactSize(source.CapacityBytes), a.Host))
				return
			}
		}
	}
	var plan model
	if resp.Diagnostics.HasError() || host.IsUnknown() {
		return
	}
	// Other values may be unknown: the apply checks again.
	resp.Diagnostics.Append(req.Plan.GetAttribute(ctx, path.Root("name"), &plan.Name)...)
	resp.Diagnostics.Append(req.Plan.GetAttribute(ctx, path.Root("pool"), &plan.Pool)...)
	resp.Diagnostics.Append(req.Plan.GetAttribute(ctx, path.Root("preallocation"), &plan.Preallocation)...)
	need := storage.Demand{}
	if bytes := size.Bytes(); bytes != nil {
		need.Growth = *bytes
	}
	if storage.Thick(plan.Preallocation.ValueString()) {
		need.Now = need.Growth
	}
	// A volume of the same name is gone by then: it is replaced, or a killed run left it. Otherwise the apply fails.
	s, removed := r.Data.Storage(), []string{plan.Name.ValueString()}
	replaced, found, diags := r.replacedVolume(ctx, req)
	resp.Diagnostics.Append(diags...)
	plan.Host = host
	on, refused := r.chooseHost(ctx, s, &plan)
	if refused != nil || plan.Pool.IsUnknown() || r.Data.Planned.PoolChange(on, plan.Pool.ValueString()).From != "" {
		return
	}
	resp.Diagnostics.Append(r.checkExists(ctx, on, &plan)...)
	if found && replaced.Pool == plan.Pool.ValueString() && s.SamePool(ctx, replaced.Pool, replaced.Host, on) {
		removed = append(removed, replaced.Name)
	}
	err := s.CheckRoom(ctx, on, plan.Pool.ValueString(), need, removed...)
	resp.Diagnostics.Append(plan.lackOfRoom("create", on, err)...)
}
