package virtualmachine

import (
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
)

// planDefinition plans the repair of what the hosts store of the VM. Afterwards, the VM has a definition on its host
// and nothing on other hosts, and the host starts it at boot if the run strategy says so.
func (p planning) planDefinition(m *model) {
	planned := map[string]attr.Value{"stale_definitions": staleFromFleet(nil), "left_volumes": staleFromFleet(nil)}
	if !p.transient {
		planned["persistent"] = types.BoolValue(true)
	}
	m.planLocation(planned)
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
	case p.state.Autostart.IsNull(), !managed, p.evicted != "", p.evicting != "",
		!open(m.Location).bool("persistent").ValueBool():
		return p.state.Autostart
	default:
		return types.BoolValue(on)
	}
}
