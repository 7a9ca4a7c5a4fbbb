package virtualmachine

import (
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
)

// planDefinition plans the repair of what the host stores about the VM: that it has a definition, and whether the host
// starts it at boot.
func (p planning) planDefinition(m *model) {
	if !p.state.Persistent.IsNull() && !p.state.Persistent.ValueBool() && !p.transient {
		m.Persistent = types.BoolValue(true)
	}
	m.Autostart = p.plannedAutostart(m)
}

// plannedAutostart plans the autostart setting that the run strategy asks for. A VM without a definition can't have
// autostart. A VM that is off for maintenance gets it back when the maintenance ends, and a VM that a drain is moving
// gets it back on the target.
func (p planning) plannedAutostart(m *model) types.Bool {
	if p.config.RunStrategy.IsUnknown() {
		return types.BoolUnknown()
	}
	on, managed := status.Autostart(p.config.runStrategy())
	switch {
	case p.state.Autostart.IsNull(), !managed, p.evicted != "", p.evicting != "", !m.Persistent.ValueBool():
		return p.state.Autostart
	default:
		return types.BoolValue(on)
	}
}
