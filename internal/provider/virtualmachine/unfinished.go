package virtualmachine

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
)

// What plans do about unfinished changes that the state doesn't show. domain/unfinished.go says which these are.

// writeUnseen records the paths of the VM's unseen changes. now is the state that shows the others.
func writeUnseen(ctx context.Context, to meta.PrivateWriter, vm *fleet.VM, now *model) diag.Diagnostics {
	var unseen []string
	if vm.LiveSpec != nil && vm.PersistentSpec != nil && len(vm.Metadata.Unfinished) > 0 {
		unseen = vm.Metadata.Unfinished.Unseen(*vm.LiveSpec, *vm.PersistentSpec, now.spec(nil))
	}
	if len(unseen) == 0 {
		return meta.WritePrivate(ctx, to, privateUnseen, nil)
	}
	return meta.WritePrivate(ctx, to, privateUnseen, unseen)
}

// takeBack returns what is declared with what runs in the place of the changes that are taken back.
func (p planning) takeBack(declared domain.Spec) (want domain.Spec, taken domain.TakenBack) {
	if p.live == nil || p.transient || len(p.unseen) == 0 {
		return declared, taken
	}
	have := p.state.spec(nil)
	return declared.TakeBack(p.unseen, have, domain.WithoutLibvirtDefaults(*p.live, have))
}

// warnTakenBack says which changes the apply takes out of the definition again, and which the next start makes although
// they are not declared any more. The plan doesn't show them, because the state doesn't have them.
func (p planning) warnTakenBack(o *outcome, taken domain.TakenBack) {
	if o.changed && len(taken.Paths) > 0 {
		o.diags.Append(p.unfinishedWarning("Unfinished changes are taken back: ", taken.Paths,
			"The apply takes them out of the definition.", "To keep them, declare them again."))
	}
	restarts := o.power != nil && o.power.Restarts
	if !restarts && len(taken.Staying) > 0 {
		o.diags.Append(p.unfinishedWarning("Unfinished changes stay: ", taken.Staying, "The next start makes them.",
			leftRemedy))
	}
}

// warnStarted says which of the changes that the plan left to the next start a start has made since. The state that is
// saved can't have them: it is what was planned. observed is what the VM has after the update.
func warnStarted(
	ctx context.Context, private meta.PrivateReader, observed domain.Spec, saved *model,
) (diags diag.Diagnostics) {
	var unseen, made []string
	if known, said := meta.ReadPrivate(ctx, private, privateUnseen, &unseen); !known {
		return said
	}
	for _, c := range domain.Changes(saved.spec(nil), observed) {
		if slices.ContainsFunc(unseen, func(path string) bool {
			return path == c.Path || strings.HasPrefix(path, c.Path+".") || strings.HasPrefix(c.Path, path+".")
		}) {
			made = append(made, c.Path)
		}
	}
	if len(made) > 0 {
		name := text(saved.Name)
		diags.AddAttributeWarning(path.Root("restart_required"), "Unfinished changes were made: "+name, fmt.Sprintf(
			"Virtual machine %q on host %q was started after the plan was made, and so it has these changes, which an apply "+
				"that failed had left in its definition. They aren't declared, and the state doesn't show them until the next "+
				"refresh:\n  - %s\n\n%s",
			name, text(saved.CurrentHost), strings.Join(made, "\n  - "), leftRemedy))
	}
	return diags
}

// leftRemedy says what to do about changes that the next start makes although they are not declared any more.
const leftRemedy = "To keep a change, declare it again. To undo it, declare the value that you want (\"none\" for a " +
	"device of which a VM has one), and apply."

func (p planning) unfinishedWarning(title string, paths []string, then, remedy string) diag.Diagnostic {
	name := text(p.state.Name)
	return diag.NewAttributeWarningDiagnostic(path.Root("restart_required"), title+name, fmt.Sprintf(
		"An apply that failed has left these changes in the definition of virtual machine %q on host %q. The VM that runs "+
			"doesn't have them, and they aren't declared any more. %s\n  - %s\n\n%s",
		name, text(p.state.CurrentHost), then, strings.Join(paths, "\n  - "), remedy))
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
