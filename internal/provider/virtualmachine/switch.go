package virtualmachine

import (
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"

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
