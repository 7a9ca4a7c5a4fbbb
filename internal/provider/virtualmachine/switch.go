package virtualmachine

import (
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// switchAttributes are the attributes of a device that a VM has or doesn't have: guest_agent and serial_console.
var switchAttributes = attributes{
	"enabled": optionalBool("Whether to add the device; `false` removes it. Default for new VMs: `true`."),
}

var switchType = objectType(switchAttributes)

func switchToDomain(o types.Object) *bool { return value.Bool(open(o).bool("enabled")) }

func switchFromDomain(enabled *bool) types.Object {
	if enabled == nil {
		return types.ObjectNull(switchType.AttrTypes)
	}
	return types.ObjectValueMust(switchType.AttrTypes, map[string]attr.Value{"enabled": types.BoolValue(*enabled)})
}

// planSerialConsole plans the serial console, which isn't declared together with serial ports, from those ports.
func planSerialConsole(planned, config, prior *model) types.Object {
	is := planned.SerialConsole
	if !open(config.SerialConsole).bool("enabled").IsNull() || config.SerialConsole.IsUnknown() {
		return is
	}
	ports := func(m *model) types.Map { return attribute[types.Map](open(m.Devices), "serials") }
	declared := elements(ports(config))
	if declared == nil || sameValue(ports(planned), ports(prior)) {
		return is
	}
	enabled := types.BoolValue(false)
	for _, port := range elements(ports(planned)) {
		kind := open(port).string("type")
		switch {
		case domain.IsInteractive(text(kind)):
			return switchFromDomain(new(true))
		case port.IsUnknown() || kind.IsUnknown():
			enabled = types.BoolUnknown()
		}
	}
	return types.ObjectValueMust(switchType.AttrTypes, map[string]attr.Value{"enabled": enabled})
}
