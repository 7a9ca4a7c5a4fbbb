package virtualmachine

import (
	"context"
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
)

// Changes that an apply wrote to the definition before it failed, and that a user then takes back by removing them from
// the configuration. The state doesn't have them, because the running VM doesn't, so nothing else would show them.

// writeUnfinished records the paths of what an update that failed has left in the definition and now doesn't tell.
func writeUnfinished(ctx context.Context, to meta.PrivateWriter, vm *fleet.VM, now *model) diag.Diagnostics {
	var paths []string
	if vm.LiveSpec != nil && vm.PersistentSpec != nil && len(vm.Metadata.Unfinished) > 0 {
		paths = vm.Metadata.Unfinished.Unseen(*vm.LiveSpec, *vm.PersistentSpec, now.spec(nil))
	}
	if len(paths) == 0 {
		return meta.WritePrivate(ctx, to, privateUnfinished, nil)
	}
	return meta.WritePrivate(ctx, to, privateUnfinished, paths)
}

// takeBack returns what is declared with what runs in the place of unfinished changes that aren't declared any more. It
// returns the paths of these, and of those that stay, because what runs there may not fit what is declared.
func (p planning) takeBack(want domain.Spec) (_ domain.Spec, back, left []string) {
	if p.live == nil || p.transient || len(p.unfinished) == 0 {
		return want, nil, nil
	}
	have := p.state.spec(nil)
	return want.TakeBack(p.unfinished, have, domain.WithoutLibvirtDefaults(*p.live, have))
}

// takenBackWarning says which changes the apply takes out of the definition again. The plan doesn't show them, because
// the state doesn't have them.
func (p planning) takenBackWarning(back []string) diag.Diagnostics {
	if len(back) == 0 {
		return nil
	}
	return p.unfinishedWarning("Unfinished changes are taken back: ", back,
		"The apply takes them out of the definition.", "To keep them, declare them again.")
}

// leftRemedy says what to do about changes that the next start makes although they are not declared any more.
const leftRemedy = "To keep a change, declare it again. To undo it, declare the value that you want (\"none\" for a " +
	"device of which a VM has one), and apply."

// leftWarning says which changes the next start makes although they are not declared any more.
func (p planning) leftWarning(left []string) diag.Diagnostics {
	if len(left) == 0 {
		return nil
	}
	return p.unfinishedWarning("Unfinished changes stay: ", left, "The next start makes them.", leftRemedy)
}

func (p planning) unfinishedWarning(title string, paths []string, then, remedy string) diag.Diagnostics {
	name := text(p.state.Name)
	return diag.Diagnostics{diag.NewAttributeWarningDiagnostic(path.Root("restart_required"), title+name, fmt.Sprintf(
		"An apply that failed has left these changes in the definition of virtual machine %q on host %q. The VM that runs "+
			"doesn't have them, and they aren't declared any more. %s\n  - %s\n\n%s",
		name, text(p.state.CurrentHost), then, strings.Join(paths, "\n  - "), remedy))}
}

// unfinishedChangesWarning lists the changes that the apply completes. The plan doesn't show them, because the state
// already has them.
func (p planning) unfinishedChangesWarning(changes []domain.Change) diag.Diagnostics {
	if len(changes) == 0 {
		return nil
	}
	return diag.Diagnostics{diag.NewAttributeWarningDiagnostic(path.Root("restart_required"),
		"Running virtual machine lacks changes", fmt.Sprintf(
			"The definition of virtual machine %q has these changes, and the VM that runs doesn't have them yet. The apply "+
				"makes them without a restart:\n%s", text(p.state.Name), domain.ListChanges(changes)))}
}
