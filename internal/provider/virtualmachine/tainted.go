package virtualmachine

import (
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
)

// noteManaged records the VM of a state that Terraform saved. Before it plans, Terraform sends every saved state, even
// those that it doesn't have read.
func (state savedState) noteManaged(data *meta.Data) {
	id, _ := state["id"].(string)
	if data == nil || id == "" {
		return
	}
	var saved meta.SavedVM
	saved.SavedName, _ = state["name"].(string)
	saved.Host, _ = state["current_host"].(string)
	if location, ok := state[locationName].(map[string]any); ok {
		saved.HostUUID, _ = location["host_uuid"].(string)
	}
	saved.Protected, _ = state["deletion_protection"].(bool)
	data.Managed.Saved(id, saved)
}

// replacedVM returns the id of the VM that is destroyed before the new one is created, "" if there is none or it is
// unknown. That VM is one that Terraform has planned to replace, or a tainted one with the new VM's name, with a
// warning. A VM that a failed create_before_destroy left looks like a tainted VM.
func (r *Resource) replacedVM(ctx context.Context, m *model, private meta.Private) (string, diag.Diagnostics) {
	var id string
	_, diags := meta.ReadPrivate(ctx, private, privateReplaced, &id)
	if id == "" {
		vm, err := r.Data.Fleet.FindByName(ctx, m.Name.ValueString())
		if err != nil {
			// An unreachable host may have the tainted VM. In all other cases, the check reports the VM.
			if tainted := r.Data.Managed.Tainted(m.Name.ValueString()); errors.Is(err, fleet.ErrUnreachable) && tainted != "" {
				diags.Append(r.verifyDestroyable(ctx, m, tainted, private)...)
			}
			return "", diags
		}
		if _, managed := r.Data.Managed.VM(vm.UUID); !managed {
			return "", diags
		}
		switch machine := r.Data.Managed.Claims(vm.UUID); {
		case machine.Planned && machine.Name == vm.Name:
			diags.Append(duplicateNameError(vm.Name))
			return "", diags
		case machine.Planned:
			return "", diags // It is unknown when that VM loses the name. The check finds the VM that has it.
		}
		id = vm.UUID
		// Of a tainted VM, Terraform plans no destroy of its own.
		seen := meta.Sighting{Plan: meta.Create}
		if !r.Data.Applies.Load() && len(r.Data.Sightings.Add(TypeName+"/"+id, seen)) > 0 {
			diags.Append(meta.FormerAddressError(TypeName, id, true))
			return "", diags
		}
		diags.AddAttributeWarning(path.Root("name"), "Name belongs to a managed virtual machine", fmt.Sprintf(
			"Virtual machine %q on host %q has this name, and Terraform manages it already (id %s). If it is tainted, it "+
				"is destroyed before the new one is created, as the plan says, and the name is free by then.\n\n"+
				"Otherwise the apply will fail: no two VMs can have one name. If another resource has it, choose another "+
				"name. If the resource was renamed, or has another key in for_each, add a moved block: without it, the apply "+
				"destroys that VM. If the plan calls it a deposed object, which a create_before_destroy left, "+
				"\"terraform state rm\" and \"terraform import\" make it this resource's again.", vm.Name, vm.Host, vm.UUID))
	}
	diags.Append(r.verifyDestroyable(ctx, m, id, private)...)
	if machine, _ := r.Data.Managed.VM(id); machine.Protected {
		diags.AddAttributeError(path.Root("deletion_protection"), "Virtual machine is protected", fmt.Sprintf(
			"Virtual machine %q would have to be destroyed for a new one, because it is tainted or to be replaced, but "+
				"deletion_protection is set.\n\n"+
				"To keep it, use \"terraform untaint\", or leave -replace out, or replace_triggered_by. To replace it, do "+
				"that and apply deletion_protection = false first.", m.Name.ValueString()))
	}
	return id, diags
}

// verifyDestroyable returns an error if a VM that must be destroyed before a new one is created can't be destroyed,
// because a host that may have it, or may use its disks, is unreachable. Otherwise it returns a warning that lists the
// data that is deleted with the VM. m is the planned VM. The saved state has the host that had the old VM last.
func (r *Resource) verifyDestroyable(
	ctx context.Context, m *model, id string, private meta.PrivateWriter,
) diag.Diagnostics {
	saved, _ := r.Data.Managed.VM(id)
	vm, err := r.Data.Fleet.CheckDelete(ctx, id, fleet.LastKnown{Host: saved.Host, HostUUID: saved.HostUUID})
	switch {
	case isGone(err):
		return nil
	case err != nil:
		last := &model{ID: types.StringValue(id), CurrentHost: types.StringValue(saved.Host)}
		failure := r.planFailure(ctx, m, last, "replace", err)
		failure.Happened = "The virtual machine has to be destroyed before a new one is created"
		return diag.Diagnostics{failure.Error()}
	default:
		return append(r.recordIfOff(ctx, vm, private), r.warnAboutRemoval(ctx, vm, nil)...)
	}
}
