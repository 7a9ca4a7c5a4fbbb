package virtualmachine

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
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

// onlyRunning returns the paths of the devices that a VM has only while it runs.
func onlyRunning(vm *fleet.VM) []string {
	if vm.LiveSpec == nil || vm.PersistentSpec == nil {
		return nil
	}
	return domain.OnlyRunning(*vm.LiveSpec, *vm.PersistentSpec)
}

// readOnlyRunning reads which devices an imported VM had only while it ran, without what the VM has lost since and what
// its definition has by now. It records what is left.
func (o *observation) readOnlyRunning(ctx context.Context, private meta.Private) diag.Diagnostics {
	var at []string
	found, diags := meta.ReadPrivate(ctx, private, privateOnlyRunning, &at)
	if !found {
		return diags
	}
	now := onlyRunning(o.vm)
	o.onlyRunning = slices.DeleteFunc(at, func(path string) bool { return !slices.Contains(now, path) })
	if len(o.onlyRunning) == 0 {
		return append(diags, meta.WritePrivate(ctx, private, privateOnlyRunning, nil)...)
	}
	return append(diags, meta.WritePrivate(ctx, private, privateOnlyRunning, o.onlyRunning)...)
}

// shownLive returns the definition of the running VM as far as the state shows it; nil if the VM is off.
func (o *observation) shownLive() *domain.Spec {
	live := o.vm.LiveSpec
	for _, path := range o.onlyRunning {
		shown, _ := live.WithoutDevice(path)
		live = &shown
	}
	return live
}

// staysRunning returns the devices that an imported VM has until it is off: the state has never shown them, and no plan
// says that they go.
func (p planning) staysRunning(want domain.Spec) []string {
	return domain.Undeclared(p.onlyRunning, want)
}

// warnOnlyRunning names the devices that an imported VM has only while it runs: the state doesn't have them.
func warnOnlyRunning(vm *fleet.VM) diag.Diagnostics {
	only := onlyRunning(vm)
	if len(only) == 0 {
		return nil
	}
	const title = "Imported virtual machine has devices only while it runs"
	return diag.Diagnostics{diag.NewWarningDiagnostic(title, fmt.Sprintf(
		"Virtual machine %q runs on host %q with devices that its definition doesn't have:\n  - %s\n\nThey were attached "+
			"while it ran. When it is off, they are gone. The imported state doesn't have them, and applies leave them to the "+
			"virtual machine until then.\n\n"+
			"To keep a device, add it to the definition on the host with `virsh attach-device %s <file> --config`. "+
			"Otherwise there is nothing to do.",
		vm.Name, vm.Host, strings.Join(only, "\n  - "), domain.ShellWord(vm.Name)))}
}
