package virtualmachines

import (
	"cmp"

	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/policy"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/evacuationsteps"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// model is the data source's state.
type model struct {
	Labels           types.Map                 `tfsdk:"labels"`
	Host             types.String              `tfsdk:"host"`
	Phase            types.String              `tfsdk:"phase"`
	Condition        *condition                `tfsdk:"condition"`
	IDs              []string                  `tfsdk:"ids"`
	VirtualMachines  map[string]virtualMachine `tfsdk:"virtual_machines"`
	UnreachableHosts []string                  `tfsdk:"unreachable_hosts"`
}

// condition is a condition to filter by.
type condition struct {
	Type   types.String `tfsdk:"type"`
	Status types.String `tfsdk:"status"`
	Reason types.String `tfsdk:"reason"`
}

// virtualMachine is one VM.
type virtualMachine struct {
	Name         string                `tfsdk:"name"`
	CurrentHost  *string               `tfsdk:"current_host"`
	Labels       map[string]string     `tfsdk:"labels"`
	RunStrategy  *string               `tfsdk:"run_strategy"`
	Phase        string                `tfsdk:"phase"`
	Status       string                `tfsdk:"status"`
	StatusReason *string               `tfsdk:"status_reason"`
	Conditions   map[string]string     `tfsdk:"conditions"`
	Eviction     *evacuationsteps.Rule `tfsdk:"eviction"`
	Evacuation   *string               `tfsdk:"evacuation_host"`
	VCPUs        *int64                `tfsdk:"vcpus"`
	MemoryBytes  *int64                `tfsdk:"memory_bytes"`
	Error        *string               `tfsdk:"error"`
}

// matches reports whether a VM matches the filters.
func (m model) matches(listed fleet.Listed, facts status.Facts, labels map[string]string) bool {
	if len(labels) > 0 && (listed.VM == nil || !policy.HasLabels(listed.VM.Metadata.Labels, labels)) {
		return false
	}
	switch {
	case !m.Host.IsNull() && m.Host.ValueString() != facts.Host,
		!m.Phase.IsNull() && m.Phase.ValueString() != status.InstancePhase(facts):
		return false
	case m.Condition == nil:
		return true
	}
	wanted := string(status.True)
	if !m.Condition.Status.IsNull() {
		wanted = m.Condition.Status.ValueString()
	}
	c := status.ConditionOf(facts, m.Condition.Type.ValueString())
	return string(c.Status) == wanted && (m.Condition.Reason.IsNull() || m.Condition.Reason.ValueString() == c.Reason)
}

func fromListed(listed fleet.Listed, facts status.Facts) virtualMachine {
	m := virtualMachine{
		Name: listed.Name, Phase: status.InstancePhase(facts), Status: status.PrintableStatus(facts),
		Conditions: make(map[string]string),
	}
	for _, c := range status.Conditions(facts) {
		m.Conditions[c.Type] = string(c.Status)
	}
	if err := cmp.Or(listed.Err, listed.RuleErr); err != nil {
		m.Error = new(err.Error())
	}
	vm := listed.VM
	if vm == nil {
		return m
	}
	m.Eviction, m.Evacuation = evacuationsteps.FromRule(listed.Rule), value.TextOrNull(facts.EvictedFrom)
	m.CurrentHost, m.StatusReason = &vm.Host, value.TextOrNull(vm.StatusReason())
	m.RunStrategy, m.Labels = value.TextOrNull(vm.Metadata.RunStrategy), vm.Metadata.Labels
	if m.Labels == nil {
		m.Labels = map[string]string{}
	}
	spec := vm.CurrentSpec()
	m.VCPUs, m.MemoryBytes = value.WholeOrNull(spec.CPU.VCPUs), value.WholeOrNull(spec.Memory.Size)
	return m
}
