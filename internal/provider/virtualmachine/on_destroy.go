package virtualmachine

import (
	"context"
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

const onDestroyName = "on_destroy"

// What a destroy removes together with the VM, and what it can keep. Disks have an on_destroy of their own.

var onDestroyAttributes = attributes{
	"nvram": keptOrDeleted("The UEFI variables (NVRAM). A new VM of the same name on the same host gets those that were " +
		"kept."),
	"tpm_state": keptOrDeleted("The state of the TPM, in libvirt's `swtpm/<UUID>` on the host. Only a VM with the same " +
		"UUID gets it, such as one that you define with virsh. `keep` requires libvirt 8.9.0."),
}

var onDestroyType = objectType(onDestroyAttributes)

func keptOrDeleted(doc string) schema.StringAttribute {
	return schema.StringAttribute{
		MarkdownDescription: doc + " One of " + value.OneOf(domain.OnDestroyModes) + ". Default: `delete`.", Optional: true,
		Validators: []validator.String{stringvalidator.OneOf(domain.OnDestroyModes...)},
	}
}

func onDestroyAttribute() schema.Attribute {
	return schema.SingleNestedAttribute{
		MarkdownDescription: "What happens to data that belong to the VM when it is destroyed. Apply a change before the " +
			"destroy. For disks, see `disks.<key>.on_destroy`.",
		Attributes: onDestroyAttributes, CustomType: onDestroyType, Optional: true,
	}
}

// keeps reports whether something stays when the VM is destroyed.
func (m *model) keeps(what string) bool {
	return text(open(m.OnDestroy).string(what)) == domain.OnDestroyKeep
}

// checkDestroy returns why the VM can't be destroyed, or a warning that lists the data that is deleted with it.
func (r *Resource) checkDestroy(ctx context.Context, state *model) diag.Diagnostics {
	if r.Data.Unknown {
		return nil
	}
	vm, err := r.Data.Fleet.CheckDelete(ctx, text(state.ID), state.lastKnown())
	switch {
	case isGone(err):
		return nil
	case err != nil:
		return diag.Diagnostics{r.planFailure(ctx, state, "delete", err).Error()}
	}
	return r.warnAboutLosses(ctx, vm)
}

// warnAboutLosses returns a warning that lists the data that is deleted with the VM, if there is any.
func (r *Resource) warnAboutLosses(ctx context.Context, vm *fleet.VM) diag.Diagnostics {
	losses := r.Data.Fleet.Losses(ctx, vm)
	if len(losses) == 0 {
		return nil
	}
	// Terraform shows only one of several warnings with the same title, so the title has the VM's name.
	return diag.Diagnostics{diag.NewWarningDiagnostic("Data is deleted with virtual machine "+vm.Name,
		fmt.Sprintf("The apply destroys the VM on host %q, and in addition to its definition deletes:\n  - %s\n\n"+
			"To keep a disk, apply its on_destroy = \"keep\" first. UEFI variables and the TPM's state have on_destroy.nvram "+
			"and on_destroy.tpm_state.", vm.Host, strings.Join(losses, "\n  - ")))}
}
