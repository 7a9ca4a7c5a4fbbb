package virtualmachine

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
)

// noteManaged notes the VM of a state that Terraform saved. Terraform sends every one before it plans, also those that
// it doesn't have read.
func (state savedState) noteManaged(data *meta.Data) {
	id, _ := state["id"].(string)
	protected, _ := state["deletion_protection"].(bool)
	if data != nil && id != "" {
		data.Managed.Saved(id, protected)
	}
}

// replacedVM is the id of the VM that is destroyed before the new one is made, "" if none is known: one that
// Terraform has planned itself to replace, or one that has the new one's name and is tainted, with a warning. What is
// left of a create_before_destroy that failed can't be told from a tainted one.
func (r *Resource) replacedVM(ctx context.Context, m *model, private meta.PrivateReader) (string, diag.Diagnostics) {
	var id string
	_, diags := meta.ReadPrivate(ctx, private, privateReplaced, &id)
	if id == "" {
		vm, err := r.Data.Fleet.FindByName(ctx, m.Name.ValueString())
		if err != nil {
			return "", diags // What is wrong is found by the check.
		}
		if _, managed := r.Data.Managed.VM(vm.UUID); !managed {
			return "", diags
		}
		switch machine := r.Data.Managed.Claims(vm.UUID); {
		case machine.Planned && machine.Name == vm.Name:
			diags.Append(nameTwice(vm.Name))
			return "", diags
		case machine.Planned:
			return "", diags // It gives the name up, and it isn't known when: the check says who has it.
		}
		id = vm.UUID
		diags.AddAttributeWarning(path.Root("name"), "Name belongs to a managed virtual machine", fmt.Sprintf(
			"Virtual machine %q on host %q has this name, and Terraform manages it already (id %s). If it is tainted, it "+
				"is destroyed before the new one is created, as the plan says, and the name is free by then.\n\n"+
				"Otherwise the apply will fail: no two VMs can have one name. If another resource has it, choose another "+
				"name. If the plan calls it a deposed object, which a create_before_destroy left, \"terraform state rm\" and "+
				"\"terraform import\" make it this resource's again.", vm.Name, vm.Host, vm.UUID))
	}
	if machine, _ := r.Data.Managed.VM(id); machine.Protected {
		diags.AddAttributeError(path.Root("deletion_protection"), "Virtual machine is protected", fmt.Sprintf(
			"Virtual machine %q would have to be destroyed for a new one, because it is tainted or to be replaced, but "+
				"deletion_protection is set.\n\n"+
				"To keep it, use \"terraform untaint\", or leave -replace out. To replace it, do that and apply "+
				"deletion_protection = false first.", m.Name.ValueString()))
	}
	return id, diags
}
