package virtualmachine

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/tfdiag"
)

// ImportState finds the VM by UUID or name on any host of the fleet. Read fills in the rest.
func (r *Resource) ImportState(
	ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse,
) {
	if !r.Asks("import", noun, &resp.Diagnostics) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()

	vm, err := r.findByIDOrName(ctx, req.ID)
	if err != nil {
		resp.Diagnostics.Append(tfdiag.Failure{Verb: "import", Noun: noun, VirtualMachine: req.ID, Err: err}.Error())
		return
	}
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("id"), types.StringValue(vm.UUID))...)
}

// findByIDOrName finds a VM by its UUID or its name, which may look like a UUID.
func (r *Resource) findByIDOrName(ctx context.Context, name string) (*fleet.VM, error) {
	if id, err := uuid.Parse(name); err == nil {
		if vm, err := r.Data.Fleet.Find(ctx, id.String(), fleet.LastKnown{}); !isGone(err) {
			return vm, err
		}
	}
	return r.Data.Fleet.FindByName(ctx, name)
}

// warnOnlyRunning names the devices that an imported VM has only while it runs: the state doesn't have them.
func warnOnlyRunning(vm *fleet.VM) diag.Diagnostics {
	if vm.LiveSpec == nil || vm.PersistentSpec == nil {
		return nil
	}
	only := domain.OnlyRunning(*vm.LiveSpec, *vm.PersistentSpec)
	if len(only) == 0 {
		return nil
	}
	const title = "Imported virtual machine has devices only while it runs"
	return diag.Diagnostics{diag.NewWarningDiagnostic(title, fmt.Sprintf(
		"Virtual machine %q runs on host %q with devices that its definition doesn't have:\n  - %s\n\nThey were attached "+
			"while it ran. When it is off, they are gone. The imported state doesn't have them.\n\n"+
			"To keep a device, add it to the definition on the host with `virsh attach-device %s <file> --config`. "+
			"Otherwise there is nothing to do.",
		vm.Name, vm.Host, strings.Join(only, "\n  - "), vm.Name))}
}
