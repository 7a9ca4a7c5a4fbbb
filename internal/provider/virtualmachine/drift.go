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

// Changes that someone made on the host, to the running VM alone or to its definition as well, and that only a restart
// undoes. The plan shows them, and whatever the update policy, the apply may leave them to the next start: it is the
// host that has changed, not the configuration. An error would keep the other VMs of the configuration from being
// changed.

// driftedChanges returns those of the fresh changes that the configuration doesn't make: what is declared is what both
// definitions said when they last agreed, or what the state said before someone changed the VM. A name is none of them:
// it can't be left to the next start, because libvirt renames a VM only while it is off.
func (p planning) driftedChanges(want domain.Spec, fresh []domain.Change) []domain.Change {
	var drifted []domain.Change
	for _, before := range []*domain.Spec{p.agreed, p.beforeDrift} {
		if before != nil && len(fresh) > 0 {
			drifted = append(drifted, without(fresh, p.definitionChanges(*before, p.withItsMedium(want)))...)
		}
	}
	return slices.DeleteFunc(slices.Clone(fresh), func(c domain.Change) bool {
		return isRename(c) || !slices.ContainsFunc(drifted, func(d domain.Change) bool { return d.Path == c.Path })
	})
}

// recordBeforeDrift records in the private state what was read before a change on the host that only a restart undoes.
// The record stays until the change is undone: what the state says after a refresh alone doesn't tell whether the
// configuration has changed or the host. changed says that what was read differs from prior.
func (m *model) recordBeforeDrift(
	ctx context.Context, prior *model, changed bool, private meta.Private,
) diag.Diagnostics {
	recorded, diags := readPrivateSpec(ctx, private, privateBeforeDrift)
	switch {
	case recorded != nil && !needsRestart(m.spec(nil), *recorded):
		diags.Append(meta.WritePrivate(ctx, private, privateBeforeDrift, nil)...)
	case recorded != nil, prior.Name.IsNull(), !changed:
		// Nothing is new, or the VM is being imported.
	default:
		if was := prior.spec(nil); needsRestart(m.spec(nil), was) {
			diags.Append(meta.WritePrivate(ctx, private, privateBeforeDrift, was)...)
		}
	}
	return diags
}

// needsRestart reports whether a running VM needs a restart to become what want declares.
func needsRestart(have, want domain.Spec) bool {
	return slices.ContainsFunc(domain.Changes(have, want), func(c domain.Change) bool { return !c.Live })
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
			"Someone changed virtual machine %q on host %q, or an apply that should have restarted it failed, or the "+
				"configuration goes back to what it was before such a change. Only a restart undoes that:\n%s\n\n"+
				"After the apply, the VM's definition is as declared. The running VM keeps these differences until its next "+
				"start, and until then restart_required is true. Shut it down and start it again (a reboot in the guest isn't "+
				"enough), or set update_policy = \"Restart\" to have the apply do that. Or undo the change by hand with virsh. To "+
				"keep it, declare it.",
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
