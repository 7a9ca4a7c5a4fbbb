package virtualmachine

import (
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
)

// planDefinition plans healthy what an apply repairs of what the host keeps of the VM: that it has a definition, and
// whether the host starts it when it boots.
func (p planning) planDefinition(m *model) {
	if !p.state.Persistent.IsNull() && !p.state.Persistent.ValueBool() && !p.transient {
		m.Persistent = types.BoolValue(true)
	}
	m.Autostart = p.plannedAutostart(m)
}

// plannedAutostart is what the run strategy asks for. A VM without a definition can't have it. One that is off for a
// maintenance gets it back when that is over, and one that a drain moves when it has arrived.
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
