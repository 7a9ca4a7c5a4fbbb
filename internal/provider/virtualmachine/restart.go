package virtualmachine

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/tfdiag"
)

// keyed are the attributes whose next step is a key that users choose.
var keyed = slices.Concat([]string{"disks", "interfaces", domain.ExtraDevices}, familyPaths(), tablePaths())

// planRestart plans, by the update policy, what happens to changes that need a restart, and reports whether the guest
// is restarted for them.
func (p planning) planRestart(o *outcome, need needs, action status.Action) bool {
	m := &o.planned
	switch {
	case action == status.Start && p.saved:
		// The VM continues with the definition that its memory was saved with.
		m.RestartRequired = types.BoolUnknown()
		o.diags.Append(p.savedRefused(o.policy)...)
		o.diags.Append(p.savedWarning()...)
		return false
	case action == status.Stop, action == status.Start:
		// The VM starts with its new definition.
		m.RestartRequired = types.BoolValue(false)
		return false
	case p.transient && len(need.restart) > 0:
		o.diags.Append(p.transientRefused(need.restart)...)
		return false
	case p.config.RunStrategy.IsUnknown() && (len(need.restart) > 0 || !p.definitionKnown()):
		m.RestartRequired = types.BoolUnknown() // warnUnknownPower says what may happen to the guest.
		return false
	case p.config.UpdatePolicy.IsUnknown() && len(need.restart) > 0,
		len(need.restart) == 0 && p.live != nil &&
			(o.policy != fleet.PolicyLive || p.config.UpdatePolicy.IsUnknown()) && !p.definitionKnown():
		p.planUnknown(o)
		return false
	case len(need.restart) == 0:
		if need.unseen() || p.state.RestartRequired.ValueBool() && !equal(m, p.state) {
			// Undeclared changes may also be waiting for a restart.
			m.RestartRequired = types.BoolUnknown()
		}
		o.diags.Append(p.unfinishedChangesWarning(need.unmade)...)
		return false
	case o.policy == fleet.PolicyRestart:
		m.RestartRequired = types.BoolValue(false)
		o.diags.Append(p.restartWarning(need.restart, need.left))
		return true
	case o.policy == fleet.PolicyStage && slices.ContainsFunc(need.fresh, isRename):
		o.diags.Append(p.renameRefused()...)
		return false
	case o.policy == fleet.PolicyStage, len(need.fresh) == len(need.drifted):
		// What was staged before, and what someone changed on the host, waits whatever the policy is now.
		o.policy = fleet.PolicyStage
		m.RestartRequired = types.BoolValue(true)
		if need.unseen() {
			m.RestartRequired = types.BoolUnknown()
		}
		o.diags.Append(p.unfinishedChangesWarning(need.unmade)...)
		o.diags.Append(p.driftWarning(need.drifted)...)
		o.diags.Append(p.stagedWarning(need.configured(), need.atOnce)...)
		return false
	default:
		o.diags.Append(p.restartRefused(need.configured())...)
		return false
	}
}

// definitionKnown reports whether all declared values of the definition are known.
func (p planning) definitionKnown() bool { return len(p.unknownParts()) == 0 }

// unknownParts returns the attributes of the definition with values that are known only during the apply.
func (p planning) unknownParts() []string {
	var names []string
	for _, part := range attributePairs(definitionAttributes, p.config, p.config) {
		if !isKnown(part.a) {
			names = append(names, part.name)
		}
	}
	if !isKnown(p.config.Ignition) {
		names = append(names, ignitionName)
	}
	if !isKnown(p.config.ExtraDevices) {
		names = append(names, domain.ExtraDevices)
	}
	return names
}

// planUnknown plans that it is unknown whether a restart is needed.
func (p planning) planUnknown(o *outcome) {
	m := &o.planned
	m.RestartRequired = types.BoolUnknown()
	if o.policy != fleet.PolicyRestart && !p.config.UpdatePolicy.IsUnknown() {
		return
	}
	o.diags.Append(p.mayRestartWarning())
	m.StatusReason, m.IPAddresses = types.StringUnknown(), types.MapUnknown(addressesType.ElemType)
	if text(p.state.Status) != status.StatusRunning {
		m.Status, m.Phase = types.StringUnknown(), types.StringUnknown()
	}
}

func (p planning) restartRefused(changes []domain.Change) diag.Diagnostics {
	return tfdiag.Problems([]fleet.Problem{{
		Attribute: changes[0].Path,
		Summary:   "Change needs a restart",
		Detail: fmt.Sprintf("These changes of virtual machine %q can't be made while it runs:\n%s",
			text(p.state.Name), domain.ListChanges(changes)),
		Remedy: "Set update_policy = \"Restart\" to have the guest restarted by the apply, or update_policy = \"Stage\" to " +
			"leave the changes to its next start. " + tfdiag.DestroyAnyway,
	}}, keyed...)
}

// transientRefused returns the error that a VM without a definition can't be started again with the changes.
func (p planning) transientRefused(changes []domain.Change) diag.Diagnostics {
	return tfdiag.Problems([]fleet.Problem{{
		Attribute: changes[0].Path,
		Summary:   "Change needs a restart",
		Detail: fmt.Sprintf("These changes of virtual machine %q can't be made while it runs. It is transient: host %q "+
			"has no definition of it, so it can't be started again with them:\n%s", text(p.state.Name),
			text(p.state.CurrentHost), domain.ListChanges(changes)),
		Remedy: fmt.Sprintf("Define it on host %q (\"virsh dumpxml --inactive --migratable %s >vm.xml\", then \"virsh "+
			"define vm.xml\"), and plan again. %s", text(p.state.CurrentHost), text(p.state.ID), tfdiag.DestroyAnyway),
	}}, keyed...)
}

func isRename(c domain.Change) bool { return c.Path == "name" }

// renameRefused returns the error that a new name can't be staged: libvirt renames a VM only while it is off.
func (p planning) renameRefused() diag.Diagnostics {
	return tfdiag.Problems([]fleet.Problem{{
		Attribute: "name", Summary: "Name can't be staged",
		Detail: fmt.Sprintf("Virtual machine %q runs. libvirt renames a VM only while it is off, so the new name can't be "+
			"left to its next start.", text(p.state.Name)),
		Remedy: "Set update_policy = \"Restart\", or rename it while run_strategy is \"Halted\".",
	}}, keyed...)
}

// savedRefused returns an error for changes to a VM that is to be started and has saved memory. The VM resumes as it
// was saved, and each plan would show the same changes again.
func (p planning) savedRefused(policy string) diag.Diagnostics {
	changes := p.definitionChanges(p.specs())
	if len(changes) == 0 || policy == fleet.PolicyStage {
		return nil
	}
	return tfdiag.Problems([]fleet.Problem{{
		Attribute: changes[0].Path, Summary: "Virtual machine resumes from saved memory",
		Detail: fmt.Sprintf("The memory of virtual machine %q is saved on host %q. When started, it continues with the "+
			"definition that it was saved with, without these changes:\n%s", text(p.state.Name), text(p.state.CurrentHost),
			domain.ListChanges(changes)),
		Remedy: "Start it first with \"virsh start " + domain.ShellWord(text(p.state.Name)) + "\" on that host: the next " +
			"plan compares the configuration with the guest that runs. Or set update_policy = \"Stage\" to leave the changes " +
			"to the start after the next. Or give the saved memory up, as if its power failed: \"virsh managedsave-remove " +
			domain.ShellWord(text(p.state.Name)) + "\". " + tfdiag.DestroyAnyway,
	}}, keyed...)
}

// savedWarning lists the changes that the definition got since the memory of the VM, which is to be started, was saved.
func (p planning) savedWarning() diag.Diagnostics {
	if p.savedAs == nil {
		return nil
	}
	have, want := p.specs()
	now := p.definitionChanges(have, want)
	missed := slices.DeleteFunc(
		p.definitionChanges(domain.WithoutLibvirtDefaults(*p.savedAs, have), p.withItsMedium(p.replacedDevices(want))),
		func(c domain.Change) bool {
			return slices.ContainsFunc(now, func(other domain.Change) bool { return isPartOf(c.Path, other.Path) })
		})
	if len(missed) == 0 {
		return nil
	}
	return tfdiag.Problems([]fleet.Problem{{
		Attribute: missed[0].Path, Summary: "Virtual machine resumes from saved memory", Warning: true,
		Detail: fmt.Sprintf("The memory of virtual machine %q is saved on host %q. When started, it continues with the "+
			"definition that it was saved with. These changes were made since, and the plan after this one shows which of "+
			"them need a restart:\n%s", text(p.state.Name), text(p.state.CurrentHost), domain.ListChanges(missed)),
		Remedy: "To start it with them, give the saved memory up first, as if its power failed: \"virsh managedsave-remove " +
			domain.ShellWord(text(p.state.Name)) + "\".",
	}}, keyed...)
}

// restartWarning says for which changes the apply restarts the guest, and which changes that an apply that failed has
// left in the definition the restart makes as well.
func (p planning) restartWarning(changes []domain.Change, left []string) diag.Diagnostic {
	said := fmt.Sprintf("update_policy is \"Restart\", and these changes of virtual machine %q can't be made while it "+
		"runs:\n%s", text(p.state.Name), domain.ListChanges(changes))
	if len(left) > 0 {
		said += fmt.Sprintf("\n\nThe restart also makes these. An apply that failed has left them in the definition, and "+
			"they aren't declared any more:\n  - %s\n\n%s", strings.Join(left, "\n  - "), leftRemedy)
	}
	if slices.ContainsFunc(changes, func(c domain.Change) bool { return isPartOf(c.Path, ignitionName) }) {
		said += "\n\nIgnition runs at a guest's first boot: a guest that has booted ignores the change of ignition, with " +
			"and without a restart. update_policy = \"Stage\" makes the change without one."
	}
	return diag.NewAttributeWarningDiagnostic(path.Root("update_policy"),
		"Virtual machine will be restarted: "+text(p.state.Name), said)
}

// stagedWarning says which changes wait for the next start, and which of the same apply don't.
func (p planning) stagedWarning(waiting, atOnce []domain.Change) diag.Diagnostics {
	if len(waiting) == 0 {
		return nil
	}
	said := fmt.Sprintf("update_policy is \"Stage\", and these changes of virtual machine %q can't be made while it runs."+
		" They wait for its next start:\n%s", text(p.state.Name), domain.ListChanges(waiting))
	if len(atOnce) > 0 {
		said += "\n\nThe apply makes these at once:\n" + domain.ListChanges(atOnce)
	}
	return diag.Diagnostics{diag.NewAttributeWarningDiagnostic(path.Root("update_policy"),
		"Changes wait for the next start: "+text(p.state.Name), said+"\n\nShut the VM down and start it when it "+
			"may be off. A reboot in the guest isn't enough.")}
}

// mayRestartWarning says that a value which the plan doesn't know may need a restart.
func (p planning) mayRestartWarning() diag.Diagnostic {
	unknown := p.unknownParts()
	if p.config.UpdatePolicy.IsUnknown() {
		unknown = append(unknown, "update_policy")
	}
	return diag.NewAttributeWarningDiagnostic(path.Root("update_policy"),
		"Virtual machine may be restarted: "+text(p.state.Name),
		fmt.Sprintf("Whether the apply restarts virtual machine %q follows from these attributes, which are known only then:"+
			"\n  - %s\n\nTo see it in the plan, first apply what they refer to, with -target. To keep the guest running, set "+
			"update_policy = \"Stage\".", text(p.state.Name), strings.Join(unknown, "\n  - ")))
}

// warnUnknownPower says that the plan doesn't know whether the VM is to run.
func (p planning) warnUnknownPower(o *outcome) {
	if !p.config.RunStrategy.IsUnknown() || p.evicted != "" {
		return
	}
	said := fmt.Sprintf("run_strategy of virtual machine %q is known only in the apply, which then starts it or shuts it "+
		"down as the value says.", text(p.state.Name))
	if o.planned.RestartRequired.IsUnknown() && (o.policy == fleet.PolicyRestart || p.config.UpdatePolicy.IsUnknown()) {
		said += " If it is to run, the apply may restart it for the other changes of this plan."
	}
	o.diags.AddAttributeWarning(path.Root("run_strategy"), "Virtual machine may be stopped: "+text(p.state.Name),
		said+"\n\nTo see it in the plan, first apply what run_strategy refers to, with -target.")
}

// replaceProtected returns an error if the VM to be replaced is protected.
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
