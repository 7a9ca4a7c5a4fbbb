package virtualmachine

import (
	"fmt"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/attrpath"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/tfdiag"
)

// keyed are the attributes whose second step is a key that users chose.
var keyed = []string{"disks", "interfaces"}

// needs are the changes that the running machine can't take.
type needs struct {
	// restart are all of them, fresh those that the state doesn't have yet: the others were staged by an earlier apply,
	// or by somebody else.
	restart, fresh []domain.Change
	// rebuilt are those that need a new machine.
	rebuilt []domain.Change
}

// needs classifies what is declared, against what the state says and against what runs.
func (p planning) needs() needs {
	have, want := p.state.spec(nil), p.config.spec(p.state)
	var n needs
	for _, c := range domain.Changes(have, want) {
		switch {
		case c.Replace:
			n.rebuilt = append(n.rebuilt, c)
		case !c.Live:
			n.fresh = append(n.fresh, c)
		}
	}
	if p.live == nil {
		n.fresh = nil
		return n
	}
	for _, c := range domain.Changes(*p.live, want) {
		if !c.Live && !c.Replace {
			n.restart = append(n.restart, c)
		}
	}
	n.fresh = slices.DeleteFunc(n.fresh, func(c domain.Change) bool {
		return !slices.ContainsFunc(n.restart, func(r domain.Change) bool { return r.Path == c.Path })
	})
	return n
}

func (n needs) replace() path.Paths {
	var paths path.Paths
	for _, c := range n.rebuilt {
		paths.Append(attrpath.Parse(c.Path, keyed...))
	}
	return paths
}

// planRestart plans by the update policy what becomes of changes that need a restart, and tells whether the guest is
// restarted for them.
func (p planning) planRestart(o *outcome, need needs, action status.Action) bool {
	m := &o.planned
	switch {
	case action == status.Stop, action == status.Start:
		// It starts with its new definition.
		m.RestartRequired = types.BoolValue(false)
		return false
	case len(need.restart) == 0:
		if p.state.RestartRequired.ValueBool() && !equal(m, p.state) {
			// Whether anything else waits for a restart isn't declared here.
			m.RestartRequired = types.BoolUnknown()
		}
		return false
	case p.config.UpdatePolicy.IsUnknown():
		m.RestartRequired = types.BoolUnknown()
		return false
	case o.policy == fleet.PolicyRestart:
		m.RestartRequired = types.BoolValue(false)
		o.diags.Append(p.restartWarning(need.restart))
		return true
	case o.policy == fleet.PolicyStage, len(need.fresh) == 0:
		// What was staged before goes on waiting, whatever the policy is by now.
		o.policy = fleet.PolicyStage
		m.RestartRequired = types.BoolValue(true)
		return false
	default:
		o.diags.Append(p.restartRefused(need.fresh)...)
		return false
	}
}

func (p planning) restartRefused(changes []domain.Change) diag.Diagnostics {
	return tfdiag.Problems([]fleet.Problem{{
		Attribute: changes[0].Path,
		Summary:   "Change needs a restart",
		Detail: fmt.Sprintf("Virtual machine %q runs and can't take these changes while it does:\n%s",
			text(p.state.Name), domain.ListChanges(changes)),
		Remedy: "Set update_policy = \"Restart\" to have the guest restarted by the apply, or update_policy = \"Stage\" to " +
			"leave the changes to its next start.",
	}}, keyed...)
}

func (p planning) restartWarning(changes []domain.Change) diag.Diagnostic {
	return diag.NewAttributeWarningDiagnostic(path.Root("update_policy"), "Virtual machine will be restarted",
		fmt.Sprintf("update_policy is \"Restart\", and virtual machine %q can't take these changes while it runs:\n%s",
			text(p.state.Name), domain.ListChanges(changes)))
}

// replaceProtected refuses to replace a protected machine.
func (p planning) replaceProtected(paths path.Paths) diag.Diagnostics {
	if !p.state.DeletionProtection.ValueBool() {
		return nil
	}
	var diags diag.Diagnostics
	diags.AddAttributeError(paths[0], "Virtual machine is protected", fmt.Sprintf(
		"Virtual machine %q would have to be replaced, because %s can't be changed, but deletion_protection is set.\n\n"+
			"To replace it, apply deletion_protection = false first.", text(p.state.Name), paths[0]))
	return diags
}
