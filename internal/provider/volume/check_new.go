package volume

import (
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/onhosts"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// What the plan of a new volume checks, see planCreate.

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

// checkSources returns an error if the size is less than that of the volume's source, as far as that is known.
func (r *volumeResource) checkSources(
	ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse, host types.String,
) {
	var size value.Quantity
	resp.Diagnostics.Append(req.Plan.GetAttribute(ctx, path.Root("size"), &size)...)
	if size.Bytes() == nil {
		return
	}
	hosts := r.Data.Fleet.Connections()
	if !host.IsNull() && !host.IsUnknown() {
		hosts = hosts.Named(host.ValueString())
	}
	for _, name := range []string{"image", "copy_of"} {
		var id types.String
		resp.Diagnostics.Append(req.Plan.GetAttribute(ctx, path.Root(name), &id)...)
		ref := refOf(id)
		if ref == nil {
			continue
		}
		for _, a := range hostset.Found(r.Data.Storage().Volume(ctx, hosts, *ref)) {
			needs := a.Value.CapacityBytes
			if needs > *size.Bytes() && name == "copy_of" {
				needs = r.seenByGuests(ctx, a.Host, *a.Value)
			}
			if needs > *size.Bytes() {
				resp.Diagnostics.AddAttributeError(path.Root("size"), "Volume too small", fmt.Sprintf(
					"size is %s, and %s = %q has %s on host %q.", size.ValueString(), name, id.ValueString(),
					domain.ExactSize(needs), a.Host))
				return
			}
		}
	}
}

// seenByGuests returns the size that guests see of a volume, or its own if that can't be read.
func (r *volumeResource) seenByGuests(ctx context.Context, host string, v libvirt.Volume) (bytes uint64) {
	if seen, err := r.Data.Storage().SeenByGuests(ctx, host, v); err == nil {
		return seen.CapacityBytes
	}
	return v.CapacityBytes
}

// checkNew returns an error if the pool has no room for the volume, and a warning if it has another one of the name.
// Values that are unknown count as not set: the apply checks again.
func (r *volumeResource) checkNew(
	ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse, host types.String,
) {
	if resp.Diagnostics.HasError() || host.IsUnknown() {
		return
	}
	plan := model{Host: host}
	for name, into := range map[string]any{
		"name": &plan.Name, "pool": &plan.Pool, "preallocation": &plan.Preallocation, "size": &plan.Size,
	} {
		resp.Diagnostics.Append(req.Plan.GetAttribute(ctx, path.Root(name), into)...)
	}
	replaced, found, diags := r.replacedVolume(ctx, req)
	resp.Diagnostics.Append(diags...)
	s, pool := r.Data.Storage(), plan.Pool.ValueString()
	on, refused := r.chooseHost(ctx, s, &plan)
	if refused != nil || plan.Pool.IsUnknown() || r.Data.Planned.PoolChange(on, pool).From != "" {
		return
	}
	resp.Diagnostics.Append(r.checkExists(ctx, on, &plan)...)
	// A volume of the same name is gone by then: it is replaced, or a killed run left it. Otherwise the apply fails.
	removed := []string{plan.Name.ValueString()}
	if found && replaced.Pool == pool && s.SamePool(ctx, replaced.Pool, replaced.Host, on) {
		removed = append(removed, replaced.Name)
	}
	err := s.CheckRoom(ctx, on, pool, plan.demand(), removed...)
	resp.Diagnostics.Append(plan.lackOfRoom("create", on, err)...)
}

// demand returns what a new volume needs of its pool.
func (m *model) demand() (need storage.Demand) {
	if bytes := m.Size.Bytes(); bytes != nil {
		need.Growth = *bytes
	}
	if storage.Thick(m.Preallocation.ValueString()) {
		need.Now = need.Growth
	}
	return need
}
