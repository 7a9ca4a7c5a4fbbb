package secret

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/onhosts"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/tfdiag"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// ModifyPlan plans that every host has the secret, and warns about what uses a secret that is to be removed or to
// get another value.
func (r *secretResource) ModifyPlan(
	ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse,
) {
	var plan, state model
	if !req.State.Raw.IsNull() {
		resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	}
	if req.Plan.Raw.IsNull() {
		resp.Diagnostics.Append(r.warnOfUsers(ctx, &state, true, types.Set{}, nil)...)
		resp.Diagnostics.Append(r.checkKept(ctx, &state)...)
		resp.Diagnostics.Append(meta.WritePrivate(ctx, resp.Private, privateDestroyed, true)...)
	} else if !req.State.Raw.IsNull() { // A destroy that was refused has left it.
		resp.Diagnostics.Append(meta.WritePrivate(ctx, resp.Private, privateDestroyed, nil)...)
	}
	if !r.Plans(noun, req, resp) {
		return
	}
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(meta.WritePrivate(ctx, resp.Private, privatePlanned, plannedVersion(&plan))...)
	targets, diags := onhosts.Targets(r.Data, plan.Hosts)
	resp.Diagnostics.Append(diags...)
	if req.State.Raw.IsNull() {
		if plan.Private.IsUnknown() {
			resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root("private"), true)...)
		}
		if !plan.Usage.IsUnknown() && !plan.UsageID.IsUnknown() {
			c := r.changeTo(&plan, nil)
			resp.Diagnostics.Append(c.CheckNew(ctx, targets, plan.Hosts, path.Root("usage_id"))...)
		}
		return
	}
	replaced := !plan.Usage.Equal(state.Usage) || !plan.UsageID.Equal(state.UsageID) || !plan.Private.Equal(state.Private)
	resp.Diagnostics.Append(r.warnOfUsers(ctx, &state, replaced, plan.Hosts, targets)...)
	if !replaced {
		c := r.changeTo(&state, nil)
		c.UUIDs = []string{state.ID.ValueString()}
		resp.Diagnostics.Append(c.CheckJoining(ctx, targets, plan.Hosts, state.HostStates)...)
	}
	keeps, diags := state.keepsPassphrase(ctx, req.Private)
	resp.Diagnostics.Append(diags...)
	if !replaced && (keeps || plan.ValueVersion.Equal(state.ValueVersion)) && !onhosts.Undecided(plan.Hosts) {
		resp.Diagnostics.Append(r.warnOfWritten(ctx, &state, targets)...)
	}
	switch {
	case replaced && keeps:
		resp.Diagnostics.Append(r.checkReplacement(ctx, &state)...)
	case keeps && !plan.ValueVersion.IsNull():
		resp.Diagnostics.AddAttributeWarning(path.Root("value_wo_version"), "Passphrase is kept", fmt.Sprintf(
			"The %s was imported, and hosts keep its value: the first value_wo_version after an import is recorded, and the "+
				"value in the configuration isn't written. To write it, change value_wo_version once more, in an apply of its "+
				"own.", state.noun()))
	case replaced && !state.hasOtherVersion(plannedVersion(&plan)):
		resp.Diagnostics.Append(r.checkReplacement(ctx, &state)...)
	case !plan.ValueVersion.Equal(state.ValueVersion):
		r.Data.Planned.PlanSecretValue(state.ID.ValueString())
		resp.Diagnostics.Append(r.warnOfNewPassphrase(ctx, &state)...)
	}
	r.Data.Planned.Plan(status.Secret, plan.ID.ValueString(), targets.Names())
	resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root(onhosts.StatesName),
		onhosts.PlanStates(targets, plan.Hosts, state.HostStates, onhosts.Present))...)
}

// joinRemedy says what to do about another secret of the usage: an import takes one UUID, so it can't join both.
const joinRemedy = "VMs and storage pools may know that one by its UUID. To keep both, set hosts to the hosts that " +
	"have this one. Declare another virtfleet_secret with the same usage, whose hosts are the others, and import it by " +
	"the UUID that \"virsh secret-list\" shows there. To have this one on all hosts, first run \"virsh " +
	"secret-undefine\" with that UUID on the host, once nothing there uses it: its value is lost."

// warnOfOthers warns that an import leaves out the hosts whose secret of the usage has another UUID.
func warnOfOthers(id, name string, found []hostset.Answer[libvirt.UserSecret]) (diags diag.Diagnostics) {
	for _, a := range found {
		if a.Value.UUID == id {
			continue
		}
		diags.Append(tfdiag.Failure{
			Verb: "import", Noun: fmt.Sprintf("%s %q", noun, name), Host: a.Host, Remedy: joinRemedy,
			Happened: fmt.Sprintf("The import takes the secret with UUID %s. This host has another one, with UUID %s", id,
				a.Value.UUID),
		}.Warning())
	}
	return diags
}

// warnOfUsers lists the VMs and storage pools that use a secret which is to be removed from hosts.
func (r *secretResource) warnOfUsers(
	ctx context.Context, state *model, removed bool, planned types.Set, targets hostset.Set,
) (diags diag.Diagnostics) {
	if r.Data == nil || r.Data.Unknown {
		return nil
	}
	losing := onhosts.Losing(r.Data, state.Hosts, state.HostStates, removed, planned, targets)
	users := func(ctx context.Context, h *libvirt.Host) ([]string, error) {
		return storage.SecretUsers(ctx, h, state.ID.ValueString())
	}
	uses := onhosts.InUse(ctx, losing, state.noun(), users)
	if len(uses) == 0 {
		return nil
	}
	// Terraform shows only one of several warnings with the same title.
	title, use := "Secret is in use: "+state.Usage.ValueString()+"/"+state.UsageID.ValueString(), strings.Join(uses, " ")
	opens, isPassphrase := opened[state.Usage.ValueString()]
	if isPassphrase {
		use += fmt.Sprintf(" It is the passphrase of %s: without it, data that stays can't be read.", opens.encrypted)
	}
	if isPassphrase && !removed {
		diags.AddWarning(title, use+" The apply fails while these VMs are there. Move or remove them first, in an apply of "+
			"its own.") // What refers to the secret moves after it.
		return diags
	}
	diags.AddWarning(title, use+" Without it, those that stay don't start any more. A secret that replaces it has "+
		"another id: change what uses it in the same apply, by a reference to the id of the virtfleet_secret.")
	return diags
}

// warnOfNewPassphrase lists the VMs with disks or a TPM of which the secret is the passphrase: a new value_wo_version
// writes the value to all hosts.
func (r *secretResource) warnOfNewPassphrase(ctx context.Context, state *model) (diags diag.Diagnostics) {
	opens, ok := opened[state.Usage.ValueString()]
	if !ok {
		return nil
	}
	users := func(ctx context.Context, h *libvirt.Host) ([]string, error) {
		return storage.SecretUsers(ctx, h, state.ID.ValueString())
	}
	if uses := onhosts.InUse(ctx, r.hostsWith(ctx, state), state.noun(), users); len(uses) > 0 {
		diags.AddAttributeWarning(path.Root("value_wo_version"), opens.replaced, strings.Join(uses, " ")+
			" The apply writes the value in the configuration to all hosts, because value_wo_version is new. "+opens.keeps)
	}
	return diags
}

// warnOfWritten names the hosts that get the value in the configuration although value_wo_version isn't new, and what
// uses the secret there. No plan can tell whether it is the former value: libvirt doesn't reveal that one, and the
// state doesn't have it.
func (r *secretResource) warnOfWritten(
	ctx context.Context, state *model, targets hostset.Set,
) (diags diag.Diagnostics) {
	having := r.Data.Fleet.Connections().Present().Named(onhosts.Having(state.HostStates)...)
	lacking := targets.Without(having.Names()...)
	if len(lacking) == 0 || len(having) > 0 && !state.Private.ValueBool() {
		return nil // A host that has the secret gives its value to the others.
	}
	hosts, lack := "Host "+lacking.Names()[0], "lacks"
	if len(lacking) > 1 {
		hosts, lack = "Hosts "+strings.Join(lacking.Names(), ", "), "lack"
	}
	why := "libvirt doesn't reveal the value that other hosts have"
	if len(having) == 0 {
		why = "no other host has it"
	}
	text := fmt.Sprintf("%s %s the %s, and %s. So the apply writes the value in the configuration there, although "+
		"value_wo_version isn't new.", hosts, lack, state.noun(), why)
	uses := onhosts.InUse(ctx, lacking, state.noun(), func(ctx context.Context, h *libvirt.Host) ([]string, error) {
		return storage.SecretUsers(ctx, h, state.ID.ValueString())
	})
	consequence := "With another value than before, VMs that need the secret can't start on these hosts or move there."
	if opens, ok := opened[state.Usage.ValueString()]; ok && len(uses) > 0 {
		consequence = opens.keeps
	}
	text = strings.Join(append(append([]string{text}, uses...), consequence), " ")
	diags.AddAttributeWarning(path.Root("value_wo_version"), "Value in the configuration is written: "+
		state.Usage.ValueString()+"/"+state.UsageID.ValueString(), text+"\n\nBefore you apply, make sure that the value in "+
		"the configuration is the one that the secret had. To give all hosts another value, change value_wo_version.")
	return diags
}

// checkReplacement returns an error if the plan may replace the passphrase of VMs by another one.
func (r *secretResource) checkReplacement(ctx context.Context, state *model) diag.Diagnostics {
	if opens, ok := opened[state.Usage.ValueString()]; ok {
		return opens.checkReplacement(ctx, r.hostsWith(ctx, state), state)
	}
	return nil
}

// checkKept returns an error if the plan destroys the passphrase of what stays.
func (r *secretResource) checkKept(ctx context.Context, state *model) diag.Diagnostics {
	opens, ok := opened[state.Usage.ValueString()]
	if !ok || r.Data == nil || r.Data.Unknown {
		return nil
	}
	hosts := r.hostsWith(ctx, state)
	if state.isLost(ctx, hosts) {
		return nil
	}
	return opens.checkKept(ctx, hosts, state)
}

// hostsWith returns the hosts that may have the secret, with those to which a VM has brought it.
func (r *secretResource) hostsWith(ctx context.Context, state *model) hostset.Set {
	known := onhosts.Asked(r.Data, state.Hosts, state.HostStates)
	copies, _ := r.copiesElsewhere(ctx, known, state)
	return slices.Concat(known, copies)
}

// plannedVersion is value_wo_version as privatePlanned records it, nil if it is unknown.
func plannedVersion(plan *model) any {
	if plan.ValueVersion.IsUnknown() {
		return nil
	}
	return plan.ValueVersion.ValueString()
}

// hasOtherVersion reports whether a version is planned, known, and another one than the value has.
func (m *model) hasOtherVersion(planned any) bool {
	return planned != nil && planned != "" && planned != m.ValueVersion.ValueString()
}
