package virtualmachine

import (
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// interfaceAttributes: what an interface is connected to is Optional alone, as a disk's source is.
var interfaceAttributes = attributes{
	"network": schema.StringAttribute{MarkdownDescription: "Name of a libvirt network on the host.", Optional: true},
	"bridge":  schema.StringAttribute{MarkdownDescription: "Name of a bridge on the host.", Optional: true},
	"user": schema.BoolAttribute{
		MarkdownDescription: "Whether it is connected to QEMU's own user mode network.",
		Optional:            true,
	},
	"other": optionalString("What an interface that wasn't made here is connected to, where nothing else describes it. " +
		"It can be kept, but not declared anew."),
	"model":      optionalString("What the guest sees: " + value.OneOf(domain.InterfaceModels) + ". Default: `virtio`."),
	"mac":        optionalString("Hardware address. Default: one derived from the machine's id and the interface's key."),
	"link_up":    optionalBool("Whether the virtual cable is plugged in."),
	"boot_order": bootOrder(),
}

var interfaceType = objectType(interfaceAttributes)

// interfacesToDomain maps declared interfaces, with the prior state standing in as it does for disks.
func interfacesToDomain(declared, prior types.Map) map[string]domain.Interface {
	interfaces := elements(declared)
	if interfaces == nil {
		return nil
	}
	before := elements(prior)
	out := make(map[string]domain.Interface, len(interfaces))
	for key, o := range interfaces {
		out[key] = interfaceToDomain(open(o), open(before[key]))
	}
	return out
}

func interfaceToDomain(a, prior object) domain.Interface {
	i := domain.Interface{
		Model:     text(a.string("model")),
		MAC:       strings.ToLower(text(a.string("mac"))),
		LinkUp:    value.Bool(a.bool("link_up")),
		BootOrder: value.Int(a.int("boot_order")),
	}
	from := a
	if a.string("network").IsUnknown() || a.string("bridge").IsUnknown() || a.bool("user").IsUnknown() {
		if prior == nil {
			// No check knows anything against it.
			i.User = true
			return i
		}
		from = prior
	}
	i.Network, i.Bridge = text(from.string("network")), text(from.string("bridge"))
	i.User, i.Other = from.bool("user").ValueBool(), text(from.string("other"))
	return i
}

func interfacesFromDomain(interfaces map[string]domain.Interface) types.Map {
	out := make(map[string]types.Object, len(interfaces))
	for key, i := range interfaces {
		out[key] = interfaceFromDomain(i)
	}
	return mapOf(interfaceType, out)
}

func interfaceFromDomain(i domain.Interface) types.Object {
	user := types.BoolNull()
	if i.User {
		user = types.BoolValue(true)
	}
	return types.ObjectValueMust(interfaceType.AttrTypes, map[string]attr.Value{
		"network":    value.NewStringOrNull(i.Network),
		"bridge":     value.NewStringOrNull(i.Bridge),
		"user":       user,
		"other":      value.NewStringOrNull(i.Other),
		"model":      value.NewStringOrNull(i.Model),
		"mac":        value.NewStringOrNull(i.MAC),
		"link_up":    types.BoolPointerValue(i.LinkUp),
		"boot_order": value.NewInt(i.BootOrder),
	})
}
