package virtualmachine

import (
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// pair is one attribute in two models.
type pair struct {
	name string
	a, b attr.Value
}

// definitionPairs are the attributes that the hypervisor knows.
func definitionPairs(a, b *model) []pair {
	return []pair{
		{"name", a.Name, b.Name},
		{"type", a.Type, b.Type},
		{"machine", a.Machine, b.Machine},
		{"arch", a.Arch, b.Arch},
		{"cpu", a.CPU, b.CPU},
		{"memory", a.Memory, b.Memory},
		{"firmware", a.Firmware, b.Firmware},
		{"kernel", a.Kernel, b.Kernel},
		{"disks", a.Disks, b.Disks},
		{"interfaces", a.Interfaces, b.Interfaces},
		{"guest_agent", a.GuestAgent, b.GuestAgent},
		{"serial_console", a.SerialConsole, b.SerialConsole},
	}
}

// policyPairs are the attributes that only we know.
func policyPairs(a, b *model) []pair {
	return []pair{
		{"host", a.Host, b.Host},
		{"placement", a.Placement, b.Placement},
		{"labels", a.Labels, b.Labels},
		{"run_strategy", a.RunStrategy, b.RunStrategy},
		{"wait_for", a.WaitFor, b.WaitFor},
		{"update_policy", a.UpdatePolicy, b.UpdatePolicy},
		{"termination_grace_period", a.TerminationGracePeriod, b.TerminationGracePeriod},
		{"deletion_protection", a.DeletionProtection, b.DeletionProtection},
		{"eviction_strategy", a.EvictionStrategy, b.EvictionStrategy},
		{"migration_options", a.MigrationOptions, b.MigrationOptions},
		{"timeouts", a.Timeouts, b.Timeouts},
	}
}

// computedPairs are the attributes that nobody declares.
func computedPairs(a, b *model) []pair {
	return []pair{
		{"id", a.ID, b.ID},
		{"current_host", a.CurrentHost, b.CurrentHost},
		{"current_host_uuid", a.CurrentHostUUID, b.CurrentHostUUID},
		{"phase", a.Phase, b.Phase},
		{"status", a.Status, b.Status},
		{"status_reason", a.StatusReason, b.StatusReason},
		{"ready", a.Ready, b.Ready},
		{"ip_addresses", a.IPAddresses, b.IPAddresses},
		{"restart_required", a.RestartRequired, b.RestartRequired},
		{"stale_definitions", a.StaleDefinitions, b.StaleDefinitions},
	}
}

// equal tells whether two models are written the same.
func equal(a, b *model) bool {
	for _, pairs := range [][]pair{definitionPairs(a, b), policyPairs(a, b), computedPairs(a, b)} {
		for _, p := range pairs {
			if !p.a.Equal(p.b) {
				return false
			}
		}
	}
	return true
}

// missed says which values that were planned to change the machine doesn't have after an update that met no error. What
// nobody declared and isn't there is no matter.
func missed(now, plan, state *model) diag.Diagnostics {
	var wrong []string
	before := definitionPairs(state, state)
	for i, p := range definitionPairs(now, plan) {
		if !p.b.IsNull() {
			wrong = append(wrong, differences(p.name, p.name, p.a, p.b, before[i].a)...)
		}
	}
	before = policyPairs(state, state)
	for i, p := range policyPairs(now, plan) {
		wrong = append(wrong, differences(p.name, p.name, p.a, p.b, before[i].a)...)
	}
	wrong = append(wrong, differences("status", "status", now.Status, plan.Status, nil)...)
	if len(wrong) == 0 {
		return nil
	}
	return diag.Diagnostics{diag.NewErrorDiagnostic("Unable to update "+noun, fmt.Sprintf(
		"The update met no error, but virtual machine %q is not as planned:\n%s\n\n"+
			"Run plan again: it shows what is left to do.", text(plan.Name), strings.Join(wrong, "\n")))}
}

// differences lists where seen isn't what was planned to become of prior, which is nil where there was nothing.
func differences(at, name string, seen, planned, prior attr.Value) []string {
	if planned.IsUnknown() || same(name, seen, planned) || prior != nil && planned.Equal(prior) {
		return nil
	}
	var wrong []string
	switch p := planned.(type) {
	case types.Object:
		s, ok := seen.(types.Object)
		if !ok || !set(p) || !set(s) {
			break
		}
		before, _ := prior.(types.Object)
		want, is, was := open(p), open(s), open(before)
		for _, name := range value.Keys(want) {
			if !want[name].IsNull() {
				wrong = append(wrong, differences(at+"."+name, name, is[name], want[name], was[name])...)
			}
		}
		return wrong
	case types.Map:
		s, ok := seen.(types.Map)
		if !ok || !set(p) || !set(s) {
			break
		}
		before, _ := prior.(types.Map)
		return mapDifferences(at, s.Elements(), p.Elements(), before.Elements())
	}
	return []string{fmt.Sprintf("  - %s: planned %s, but it is %s", at, planned, seen)}
}

func mapDifferences(at string, seen, planned, prior map[string]attr.Value) []string {
	var wrong []string
	for _, key := range value.Keys(planned) {
		if is, ok := seen[key]; ok {
			wrong = append(wrong, differences(at+"."+key, "", is, planned[key], prior[key])...)
			continue
		}
		wrong = append(wrong, fmt.Sprintf("  - %s.%s: planned, but it isn't there", at, key))
	}
	for _, key := range value.Keys(seen) {
		if _, ok := planned[key]; !ok {
			wrong = append(wrong, fmt.Sprintf("  - %s.%s: planned to go, but it is still there", at, key))
		}
	}
	return wrong
}

// take takes over what was planned, where it was known.
func (m *model) take(plan *model) {
	m.Name = filled(plan.Name, m.Name)
	m.Type = filled(plan.Type, m.Type)
	m.Machine = filled(plan.Machine, m.Machine)
	m.Arch = filled(plan.Arch, m.Arch)
	m.CPU = filled(plan.CPU, m.CPU)
	m.Memory = filled(plan.Memory, m.Memory)
	m.Firmware = filled(plan.Firmware, m.Firmware)
	m.Kernel = filled(plan.Kernel, m.Kernel)
	m.Disks = filled(plan.Disks, m.Disks)
	m.Interfaces = filled(plan.Interfaces, m.Interfaces)
	m.GuestAgent = filled(plan.GuestAgent, m.GuestAgent)
	m.SerialConsole = filled(plan.SerialConsole, m.SerialConsole)

	m.Host = filled(plan.Host, m.Host)
	m.Placement = filled(plan.Placement, m.Placement)
	m.Labels = filled(plan.Labels, m.Labels)
	m.RunStrategy = filled(plan.RunStrategy, m.RunStrategy)
	m.WaitFor = filled(plan.WaitFor, m.WaitFor)
	m.UpdatePolicy = filled(plan.UpdatePolicy, m.UpdatePolicy)
	m.TerminationGracePeriod = filled(plan.TerminationGracePeriod, m.TerminationGracePeriod)
	m.DeletionProtection = filled(plan.DeletionProtection, m.DeletionProtection)
	m.EvictionStrategy = filled(plan.EvictionStrategy, m.EvictionStrategy)
	m.MigrationOptions = filled(plan.MigrationOptions, m.MigrationOptions)
	m.Timeouts = filled(plan.Timeouts, m.Timeouts)

	m.ID = filled(plan.ID, m.ID)
	m.CurrentHost = filled(plan.CurrentHost, m.CurrentHost)
	m.CurrentHostUUID = filled(plan.CurrentHostUUID, m.CurrentHostUUID)
	m.Phase = filled(plan.Phase, m.Phase)
	m.Status = filled(plan.Status, m.Status)
	m.StatusReason = filled(plan.StatusReason, m.StatusReason)
	m.Ready = filled(plan.Ready, m.Ready)
	m.IPAddresses = filled(plan.IPAddresses, m.IPAddresses)
	m.RestartRequired = filled(plan.RestartRequired, m.RestartRequired)
	m.StaleDefinitions = filled(plan.StaleDefinitions, m.StaleDefinitions)
}

// filled returns what was planned, with what was seen where that wasn't known.
func filled[T attr.Value](planned, seen T) T {
	v, ok := fill(planned, seen).(T)
	if !ok {
		return seen
	}
	return v
}

func fill(planned, seen attr.Value) attr.Value {
	if planned.IsUnknown() {
		if seen == nil {
			return nullLike(planned)
		}
		return seen
	}
	switch p := planned.(type) {
	case types.Object:
		if p.IsNull() {
			return planned
		}
		s, _ := seen.(types.Object)
		all, is := open(p), open(s)
		for name, v := range all {
			all[name] = fill(v, is[name])
		}
		return types.ObjectValueMust(attributeTypes(p), all)
	case types.Map:
		if p.IsNull() {
			return planned
		}
		s, _ := seen.(types.Map)
		all, is := p.Elements(), s.Elements()
		for key, v := range all {
			all[key] = fill(v, is[key])
		}
		return types.MapValueMust(elementType(p), all)
	default:
		return planned
	}
}
