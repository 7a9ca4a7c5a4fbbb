package virtualmachine

import (
	"context"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/tfdiag"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// ModifyPlan is the only place that makes plans: the schema has no plan modifiers of its own.
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

	config, state := &model{}, (*model)(nil)
	resp.Diagnostics.Append(req.Config.Get(ctx, config)...)
	if !req.State.Raw.IsNull() {
		state = &model{}
		resp.Diagnostics.Append(req.State.Get(ctx, state)...)
	}
	p, diags := r.planning(ctx, config, state, req.Private)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}

	r.expectMove(p)
	if resp.Diagnostics.Append(p.noteForReplacement(ctx, r.Data, resp.Private)...); resp.Diagnostics.HasError() {
		return
	}
	o := p.plan()
	resp.Diagnostics.Append(o.diags...)
	resp.RequiresReplace = o.replace
	if err := r.verifyUnique(ctx, p, o); err != nil {
		resp.Diagnostics.Append(p.config.failure("plan", err).Error())
		// Terraform plans before it destroys, and doesn't say that it will destroy.
		resp.Diagnostics.AddAttributeWarning(path.Root("name"), "Destroying one of the virtual machines",
			"To destroy this virtual machine, or the other, use \"terraform destroy -refresh=false\" with -target: without "+
				"-refresh=false Terraform plans before it destroys, and fails as this plan does.")
		return
	}
	if !o.changed {
		resp.Plan.Raw = req.State.Raw
		resp.Diagnostics.Append(r.checkPin(config)...)
		return
	}
	resp.Diagnostics.Append(resp.Plan.Set(ctx, &o.planned)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if len(o.replace) > 0 {
		if !r.Data.Unknown {
			resp.Diagnostics.Append(r.verifyDestroyable(ctx, config, text(state.ID), resp.Private)...)
		}
		return
	}
	if diags := p.validatePlanned(&o.planned); diags.HasError() {
		resp.Diagnostics.Append(diags...)
		return
	}
	resp.Diagnostics.Append(r.checkWithFleet(ctx, p, o, req.Config.Raw.IsFullyKnown(), resp.Private)...)
}

// planning collects everything that a plan follows from.
func (r *Resource) planning(
	ctx context.Context, config, state *model, private meta.PrivateReader,
) (planning, diag.Diagnostics) {
	p := planning{
		config: config, state: state, hosts: r.hostNames(), classes: r.deviceClasses, poolChange: r.Data.Planned.PoolChange,
	}
	if state == nil {
		p.config = config.withProfile()
	}
	var diags diag.Diagnostics
	if state == nil {
		return p, diags
	}
	for key, spec := range map[string]**domain.Spec{
		privateLive: &p.live, privateAgreed: &p.agreed, privateBeforeDrift: &p.beforeDrift, privateSavedAs: &p.savedAs,
	} {
		found, d := readPrivateSpec(ctx, private, key)
		*spec = found
		diags.Append(d...)
	}
	for key, v := range map[string]any{
		privateSaved: &p.saved, privateApplied: &p.applied, privateEvicted: &p.evicted, privateEvicting: &p.evicting,
		privateTransient: &p.transient, privateRecorded: &p.recorded, privateLost: &p.lost,
		privateUnseen: &p.unseen, privateOnlyRunning: &p.onlyRunning, privateDefined: &p.defined,
		privateOwn: &p.own, privateElsewhere: &p.elsewhere, privateUnsure: &p.unsure, privateDeletedInPart: &p.deletedInPart,
	} {
		_, d := meta.ReadPrivate(ctx, private, key, v)
		diags.Append(d...)
	}
	return p, diags
}

// noteForReplacement records which VM is planned. If Terraform then plans a new VM in its place, that plan knows which
// VM it replaces. Terraform doesn't say beforehand whether it will: with -replace it does, whatever was planned.
func (p planning) noteForReplacement(
	ctx context.Context, data *meta.Data, private meta.PrivateWriter,
) diag.Diagnostics {
	if p.state == nil {
		return nil
	}
	vm := data.Managed.Plans(text(p.state.ID), text(p.config.Name))
	if vm.Claimed && p.config.Name.Equal(p.state.Name) {
		return diag.Diagnostics{duplicateNameError(text(p.state.Name))}
	}
	// A destroy that failed leaves what its plan recorded.
	diags := meta.WritePrivate(ctx, private, privateDestroyedOff, nil)
	return append(diags, meta.WritePrivate(ctx, private, privateReplaced, text(p.state.ID))...)
}

// checkPin returns an error if no host of the provider has the name in the configuration. Where the VM is doesn't
// depend on the name, so a host that is renamed changes nothing else.
func (r *Resource) checkPin(config *model) diag.Diagnostics {
	if r.Data.Unknown || !isSet(config.Host) {
		return nil
	}
	problem := r.Data.Fleet.CheckPin(text(config.Host))
	if problem == nil {
		return nil
	}
	problems := []fleet.Problem{*problem}
	sayDestroyAnyway(problems, false)
	return tfdiag.Problems(problems, keyed...)
}

// hostNames returns the names of the provider's hosts, as far as they are known.
func (r *Resource) hostNames() []string {
	if r.Data.Unknown {
		return nil
	}
	return r.Data.Fleet.HostNames()
}

// checkWithFleet asks the fleet whether the plan can work, as far as everything that it depends on is known.
func (r *Resource) checkWithFleet(
	ctx context.Context, p planning, o outcome, known bool, private meta.Private,
) (diags diag.Diagnostics) {
	isNew := p.state == nil
	if r.Data.Unknown {
		if !isNew {
			diags.Append(r.Data.UnknownError("update", noun))
		}
		return diags
	}
	if p.config.Name.IsUnknown() || p.config.Host.IsUnknown() {
		return diags
	}

	var (
		problems []fleet.Problem
		err      error
	)
	desired := p.config.toFleet(p.state)
	desired.Spec, _ = p.takeBack(desired.Spec)
	desired.UpdatePolicy, desired.Incomplete = o.policy, !known
	desired.Power, desired.Lost = o.power, p.lost
	desired.StaysRunning = p.staysRunning(desired.Spec)
	desired.PlannedObjects, desired.Made = r.Data.Planned.All(), r.Data.Volumes.AllMade()
	desired.UnplannedPools, desired.UnplannedImages = r.unplanned(desired.OwnDisks)
	desired.UnplannedVolumes = r.unplannedVolumes(desired.Volumes)
	if p.config.RunStrategy.IsUnknown() {
		desired.Files = nil // It isn't known yet whether they are needed.
	}
	if isNew {
		if name := p.config.Name.ValueString(); !r.Data.Managed.Wants(name) {
			diags.Append(duplicateNameError(name))
			return diags
		}
		desired.Replaces, diags = r.replacedVM(ctx, p.config, private)
		if diags.HasError() {
			return diags
		}
		if status.StartsOnCreate(p.config.runStrategy()) {
			_, refused := r.refuseFenced(ctx, p.config)
			if diags.Append(refused...); diags.HasError() {
				return diags
			}
		}
		problems, err = r.Data.Fleet.CheckCreate(ctx, desired)
	} else {
		if o.starts() {
			if diags.Append(r.checkFenced(ctx, p.state)...); diags.HasError() {
				return diags
			}
		}
		problems, err = r.Data.Fleet.CheckUpdate(ctx, text(p.state.ID), p.state.lastKnown(), desired)
		if err == nil {
			var blockers []fleet.Problem
			blockers, err = r.checkMove(ctx, p, desired.PlannedObjects)
			problems = append(problems, blockers...)
		}
		diags.Append(r.checkOwners(ctx, p.state, desired)...)
		diags.Append(r.warnOfRemovedVolumes(p.config, p.state)...)
	}
	if err != nil {
		diags.Append(r.planFailure(ctx, p.config, p.state, "plan", err).Error())
	}
	problems = append(problems, r.checkVariables(p, desired)...)
	sayDestroyAnyway(problems, isNew)
	diags.Append(tfdiag.Problems(problems, keyed...)...)
	return diags
}

// replaceAnyway is part of the remedy of errors that refuse a change. With -replace, Terraform plans the change before
// the replacement, and doesn't say that it will replace the VM. Of a tainted VM, it plans only the new one.
const replaceAnyway = "To replace the VM, use \"terraform taint\": -replace plans this change first, too."

// destroyOthers is part of the remedy of errors that refuse a new VM: "terraform destroy" plans it too, and then
// destroys nothing.
const destroyOthers = "To destroy the resources that the state has, use \"terraform destroy -refresh=false\", which " +
	"doesn't plan this VM first."

// sayDestroyAnyway adds to the first error how to destroy or replace the VM nevertheless. Of a VM that would be new, it
// says how to destroy the others.
func sayDestroyAnyway(problems []fleet.Problem, isNew bool) {
	anyway := tfdiag.DestroyAnyway + " " + replaceAnyway
	if isNew {
		anyway = destroyOthers
	}
	if i := slices.IndexFunc(problems, func(p fleet.Problem) bool { return !p.Warning }); i >= 0 {
		problems[i].Remedy = strings.TrimSpace(problems[i].Remedy + " " + anyway)
	}
}

// unplanned returns the storage pools and images of disks that no resource creates, as far as they are known. Terraform
// plans a resource that the VM refers to before the VM.
func (r *Resource) unplanned(disks map[string]domain.OwnDisk) (pools, images map[string]bool) {
	pools, images = map[string]bool{}, map[string]bool{}
	for _, disk := range disks {
		pools[disk.Pool] = disk.Pool != "" && !r.Data.Planned.HasPool(disk.Pool)
		if image := storage.ParseRef(disk.Image); image != nil {
			pools[image.Pool] = !r.Data.Planned.HasPool(image.Pool)
			images[disk.Image] = !r.Data.Planned.MayHaveVolume(*image)
		}
	}
	return pools, images
}

// unplannedVolumes returns those of the volumes, by id, that no resource is, as far as that is known.
func (r *Resource) unplannedVolumes(volumes map[string]string) map[string]bool {
	unplanned := map[string]bool{}
	for _, id := range volumes {
		if ref := storage.ParseRef(id); ref != nil {
			unplanned[id] = !r.Data.Planned.MayHaveVolume(*ref)
		}
	}
	return unplanned
}

// verifyUnique returns an error if another VM has the name or a disk of a VM that runs after the apply. This can happen
// without a change: a host that was fenced may be back.
func (r *Resource) verifyUnique(ctx context.Context, p planning, o outcome) error {
	if p.state == nil || r.Data.Unknown || len(o.replace) > 0 || text(o.planned.Status) == status.StatusStopped {
		return nil
	}
	return r.Data.Fleet.VerifyExclusive(ctx, text(p.state.ID), fleet.Desired{
		Spec: o.want, Volumes: diskVolumes(o.disks), OwnDisks: ownAmong(o.disks),
		Metadata: domain.Metadata{SharedDisks: sharedDisks(o.disks)},
	})
}

// duplicateNameError returns the error for two resources of one configuration with the same name.
func duplicateNameError(name string) diag.Diagnostic {
	return diag.NewAttributeErrorDiagnostic(path.Root("name"), "Duplicate virtual machine name",
		"Two resources of this configuration have the name \""+name+"\". No two VMs can have one name.\n\n"+
			"Choose another name for one of them, or remove it.")
}

// planDestroy returns an error for a protected VM, for a VM whose host is unreachable, and for a VM whose disks an
// unreachable host may use.
func (r *Resource) planDestroy(
	ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse,
) {
	var state model
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() {
		return
	}
	switch {
	case state.DeletionProtection.ValueBool():
		resp.Diagnostics.Append(protectedError(&state))
	case r.Data.Unknown:
		resp.Diagnostics.Append(r.Data.UnknownError("delete", noun))
	default:
		// Read only warns about an unreachable host if such VMs are kept or the host is under maintenance.
		resp.Diagnostics.Append(r.checkDestroy(ctx, &state, resp.Private)...)
	}
}

// protectedError returns the error that the VM is protected.
func protectedError(m *model) diag.Diagnostic {
	return diag.NewAttributeErrorDiagnostic(path.Root("deletion_protection"), "Virtual machine is protected",
		"Virtual machine \""+text(m.Name)+"\" has deletion_protection set, so it can't be destroyed.\n\n"+
			"To destroy it, apply deletion_protection = false first.")
}
