package virtualmachine

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/tfdiag"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

const onDestroyName = "on_destroy"

// What a destroy removes together with the VM, and what it can keep. Disks have an on_destroy of their own.

var onDestroyAttributes = attributes{
	domain.PartNVRAM: keptOrDeleted("The UEFI variables (NVRAM). A new VM of the same name on the same host gets those " +
		"that were kept."),
	domain.PartTPMState: keptOrDeleted("The state of the TPM. What is kept is read only by a VM with the same UUID, " +
		"such as one that you define with virsh. `keep` requires libvirt 8.9.0."),
	domain.PartManagedSave: keptOrDeleted("The guest's memory that `virsh managedsave` saved. " + keepRefuses),
	domain.PartSnapshots: keptOrDeleted("libvirt's metadata of snapshots; the data of internal ones is in the " +
		"disks. " + keepRefuses),
	domain.PartCheckpoints: keptOrDeleted("libvirt's metadata of checkpoints, which incremental backups require. " +
		keepRefuses),
}

const keepRefuses = "With `keep`, a destroy is refused while there is any."

var onDestroyType = objectType(onDestroyAttributes)

func keptOrDeleted(doc string) schema.StringAttribute {
	return schema.StringAttribute{
		MarkdownDescription: doc + " One of " + value.OneOf(domain.OnDestroyModes) + ". Default: `delete`.", Optional: true,
		Validators: []validator.String{value.Among(domain.OnDestroyModes...)},
	}
}

func onDestroyAttribute() schema.Attribute {
	return schema.SingleNestedAttribute{
		MarkdownDescription: "What happens to data that belongs to the VM when it is destroyed. Apply a change before the " +
			"destroy. For disks, see `disks.<key>.on_destroy`.",
		Attributes: onDestroyAttributes, CustomType: onDestroyType, Optional: true,
	}
}

// keptParts returns the parts that stay when the VM is destroyed, in alphabetical order.
func keptParts(onDestroy types.Object) []string {
	var parts []string
	for _, part := range value.Keys(onDestroyAttributes) {
		if text(open(onDestroy).string(part)) == domain.OnDestroyKeep {
			parts = append(parts, part)
		}
	}
	return parts
}

// onDestroyFromFleet returns on_destroy as the VM's metadata has it. Only the parts that are kept are recorded, so
// parts that are deleted are as in prior.
func onDestroyFromFleet(recorded []string, prior types.Object) types.Object {
	was, parts := open(prior), object{}
	there := len(was) > 0 && len(keptParts(prior)) == 0 // {} and null mean the same.
	for part := range onDestroyAttributes {
		parts[part] = types.StringNull()
		switch {
		case slices.Contains(recorded, part):
			parts[part], there = types.StringValue(domain.OnDestroyKeep), true
		case text(was.string(part)) == domain.OnDestroyDelete:
			parts[part], there = was[part], true
		}
	}
	if !there {
		return types.ObjectNull(onDestroyType.AttrTypes)
	}
	return types.ObjectValueMust(onDestroyType.AttrTypes, parts)
}

// checkDestroy returns why the VM can't be destroyed, or a warning that lists which data is deleted with it and which
// stays.
func (r *Resource) checkDestroy(ctx context.Context, state *model, private meta.Private) diag.Diagnostics {
	if r.Data.Unknown {
		return nil
	}
	vm, err := r.Data.Fleet.CheckDelete(ctx, text(state.ID), state.lastKnown())
	switch {
	case isGone(err):
		return nil
	case err != nil:
		return diag.Diagnostics{r.planFailure(ctx, state, state, "delete", err).Error()}
	}
	var lost map[string]domain.OwnDisk
	_, diags := meta.ReadPrivate(ctx, private, privateLost, &lost)
	diags.Append(r.recordIfOff(ctx, vm, private)...)
	return append(diags, r.warnAboutRemoval(ctx, vm, lost)...)
}

// recordIfOff records whether a VM is off that is destroyed, also for another one in its place. The state doesn't say
// it: Terraform may give the destroy of a VM that is no longer declared the state that was saved last.
func (r *Resource) recordIfOff(ctx context.Context, vm *fleet.VM, private meta.PrivateWriter) diag.Diagnostics {
	// The end of a maintenance may start the VM in the same apply.
	evicted, err := r.Data.Fleet.Evicted(ctx, vm)
	return meta.WritePrivate(ctx, private, privateDestroyedOff, !vm.Active && err == nil && evicted == "")
}

// warnAboutRemoval returns a warning that lists what is deleted with the VM and what is kept, if there is anything, and
// one about jobs that it ends. lost is what was created with the VM, and what its definition has lost.
func (r *Resource) warnAboutRemoval(
	ctx context.Context, vm *fleet.VM, lost map[string]domain.OwnDisk,
) diag.Diagnostics {
	jobs := tfdiag.Problems(r.Data.Fleet.WarnOfJobs(ctx, vm))
	removal := r.Data.Fleet.Removal(ctx, vm, lost)
	if len(removal.Deleted)+len(removal.Kept)+len(removal.Shared)+len(removal.Lost)+len(removal.Aside)+
		len(removal.Missing) == 0 {
		return jobs
	}
	detail := fmt.Sprintf("The apply destroys the VM on host %q.", vm.Host)
	for _, part := range []struct {
		heading string
		data    []string
	}{
		{"Deleted, in addition to its definition", slices.Concat(removal.Deleted, removal.Media)},
		{"Kept on the host, because on_destroy says so", removal.Kept},
		{"Kept on the host, because of another VM", removal.Shared},
		{"Kept on the host, because the VM's definition has lost it, as after \"virsh snapshot-revert\"", removal.Lost},
		{fmt.Sprintf("Not deleted, because host %q isn't known to have them: another one may", vm.Host), removal.Missing},
		{"The apply fails while it is unknown whether other disks are based on those that it deletes", removal.Unclear},
		{"Not deleted with the VM, because they weren't created with it", removal.Untouched},
		{"Not deleted either, and what the guest wrote last is in these", removal.Aside},
	} {
		if len(part.data) > 0 {
			detail += "\n\n" + part.heading + ":\n  - " + strings.Join(part.data, "\n  - ")
		}
	}
	detail += "\n\nTo change this, apply disks.<key>.on_destroy for a disk, or on_destroy for anything else, before the " +
		"destroy."
	// Terraform shows only one of several warnings with the same title, so the title has the VM's name.
	if len(removal.Deleted) == 0 {
		return append(jobs, diag.NewWarningDiagnostic("Data is kept after destroying virtual machine "+vm.Name, detail))
	}
	return append(jobs, diag.NewWarningDiagnostic("Data is deleted with virtual machine "+vm.Name, detail))
}
