package virtualmachine

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
)

// Changes that someone made to the running VM alone, and that only a restart undoes. An apply has nothing to write for
// them, so they are no change of the plan. The plan warns about them unless the apply restarts the VM, and
// restart_required is true until the VM is restarted.

// driftedChanges returns those of the changes that need a restart which nobody has staged. What was staged is known to
// have been something else when both definitions last agreed.
func (p planning) driftedChanges(want domain.Spec, n needs) []domain.Change {
	if p.agreed == nil || len(n.restart) == len(n.fresh) {
		return nil
	}
	among := func(changes []domain.Change, c domain.Change) bool {
		return slices.ContainsFunc(changes, func(other domain.Change) bool { return isPartOf(c.Path, other.Path) })
	}
	since := p.definitionChanges(*p.agreed, want)
	known := domain.Changes(want, *p.agreed) // After an import it isn't known what was agreed.
	var drifted []domain.Change
	for _, c := range n.restart {
		if staged := among(since, c) && among(known, c); !staged && !among(n.fresh, c) {
			drifted = append(drifted, c)
		}
	}
	return drifted
}

// driftWarning says what the running VM has and what its definition says, for each of the changes.
func (p planning) driftWarning(changes []domain.Change) diag.Diagnostics {
	if len(changes) == 0 {
		return nil
	}
	running := *p.state
	for _, b := range blocks {
		b.fromDomain(&running, *p.live, observation{vm: &fleet.VM{}}, p.state)
	}
	lines := make([]string, len(changes))
	for i, c := range changes {
		lines[i] = fmt.Sprintf("  - %s: %s%s", c.Path, bothValues(c.Path, &running, p.state), c.Why)
	}
	return diag.Diagnostics{diag.NewAttributeWarningDiagnostic(path.Root("restart_required"),
		"Running virtual machine differs from its definition", fmt.Sprintf(
			"The definition of virtual machine %q on host %q is as configured. The running VM differs from it in what only "+
				"a restart changes:\n%s\n\nThis plan leaves the running VM as it is, and restart_required stays true. Shut the "+
				"VM down and start it again (a reboot in the guest isn't enough), or set update_policy = \"Restart\" to have the "+
				"apply do that. Or undo the change by hand with virsh. To keep it, declare it.",
			text(p.state.Name), text(p.state.CurrentHost), strings.Join(lines, "\n")))}
}

// bothValues is a sentence on what the running VM and its definition have at that path, without anything that could be
// a secret. It is empty if the attribute doesn't tell.
func bothValues(at string, running, defined *model) string {
	runs, says := running.lookUp(at), defined.lookUp(at)
	inRunning, inDefined := runs != nil && !runs.IsNull(), says != nil && !says.IsNull()
	switch {
	case !inRunning && !inDefined:
		return ""
	case !inRunning:
		return "Only the definition has it. "
	case !inDefined:
		return "Only the running VM has it. "
	}
	path := withoutKeys(at)
	r, d := redacted(path, runs), redacted(path, says)
	if r == d {
		return "The running VM has " + r + ". " // The values aren't shown.
	}
	return fmt.Sprintf("The running VM has %s, its definition has %s. ", r, d)
}

// withoutKeys returns the path of an attribute with * for keys.
func withoutKeys(at string) string {
	steps := strings.Split(at, ".")
	for i := range steps[1:] {
		if slices.Contains(keyed, strings.Join(steps[:i+1], ".")) {
			steps[i+1] = "*"
		}
	}
	return strings.Join(steps, ".")
}
