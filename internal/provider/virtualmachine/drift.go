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

// Changes that someone made to the running VM alone, and that only a restart undoes. The plan shows them, and whatever
// the update policy, the apply may leave them to the next start: the definition is as configured. An error would keep
// the other VMs of the configuration from being changed.

// driftedChanges returns those of the fresh changes for which both definitions, when they last agreed, said what is
// declared: it is the running VM that has changed since, not the configuration.
func (p planning) driftedChanges(want domain.Spec, fresh []domain.Change) []domain.Change {
	if p.agreed == nil || len(fresh) == 0 {
		return nil
	}
	return without(fresh, p.definitionChanges(*p.agreed, want))
}

// without returns the changes that are about other things than those of others.
func without(changes, others []domain.Change) []domain.Change {
	return slices.DeleteFunc(slices.Clone(changes), func(c domain.Change) bool {
		return slices.ContainsFunc(others, func(other domain.Change) bool { return isPartOf(c.Path, other.Path) })
	})
}

// driftWarning says what the running VM has and what is declared, for each of the changes.
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
		lines[i] = fmt.Sprintf("  - %s: %s%s", c.Path, bothValues(c.Path, &running, p.config), c.Why)
	}
	return diag.Diagnostics{diag.NewAttributeWarningDiagnostic(path.Root("restart_required"),
		"Running virtual machine differs from its definition", fmt.Sprintf(
			"Someone changed virtual machine %q on host %q while it runs, or an apply that should have restarted it failed. "+
				"Only a restart undoes that:\n%s\n\nThe apply leaves the running VM as it is until its next start. Until then, "+
				"restart_required is true. Shut it down and start it again (a reboot in the guest isn't enough), or set "+
				"update_policy = \"Restart\" to have the apply do that. Or undo the change by hand with virsh. To keep it, "+
				"declare it.",
			text(p.state.Name), text(p.state.CurrentHost), strings.Join(lines, "\n")))}
}

// bothValues is a sentence on what the running VM has at that path and what is declared, without anything that could be
// a secret. It is empty if the attribute doesn't tell.
func bothValues(at string, running, declared *model) string {
	runs, says := running.lookUp(at), declared.lookUp(at)
	inRunning, isDeclared := runs != nil && !runs.IsNull(), says != nil && !says.IsNull()
	path := withoutKeys(at)
	switch {
	case !inRunning && !isDeclared:
		return ""
	case !inRunning:
		return "The running VM lacks it. "
	case !isDeclared && strings.HasSuffix(path, ".*"):
		return "It isn't declared. "
	case !isDeclared, redacted(path, runs) == redacted(path, says):
		// The value follows from another attribute that is declared, or isn't shown.
		return fmt.Sprintf("The running VM has %s. ", redacted(path, runs))
	default:
		return fmt.Sprintf("The running VM has %s, declared is %s. ", redacted(path, runs), redacted(path, says))
	}
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
