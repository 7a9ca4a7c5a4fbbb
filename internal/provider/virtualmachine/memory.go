package virtualmachine

import (
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

var memoryAttributes = attributes{
	"size": schema.StringAttribute{
		MarkdownDescription: "Memory of the guest, such as `2Gi`. Sizes compare by value: `2Gi` equals `2048Mi`. " +
			"A new machine needs it.",
		CustomType: value.QuantityType,
		Optional:   true,
		Computed:   true,
		Validators: []validator.String{value.WholeKiB()},
	},
	"max_size": schema.StringAttribute{
		MarkdownDescription: "Size up to which memory can be added while the machine runs.",
		CustomType:          value.QuantityType,
		Optional:            true,
		Computed:            true,
		Validators:          []validator.String{value.WholeKiB()},
	},
}

var memoryType = objectType(memoryAttributes)

func memoryToDomain(o types.Object) domain.Memory {
	a := open(o)
	return domain.Memory{Size: a.quantity("size").Bytes(), MaxSize: a.quantity("max_size").Bytes()}
}

func memoryFromDomain(m domain.Memory) types.Object {
	return types.ObjectValueMust(memoryType.AttrTypes, map[string]attr.Value{
		"size":     value.NewQuantityPointer(m.Size),
		"max_size": value.NewQuantityPointer(m.MaxSize),
	})
}

// settleMemory plans no maximum that isn't declared and would be below the size.
func settleMemory(config, planned types.Object) types.Object {
	if !set(config) || !set(planned) {
		return planned
	}
	a := open(planned)
	size, most := a.quantity("size").Bytes(), a.quantity("max_size").Bytes()
	if !open(config)["max_size"].IsNull() || most == nil || (size != nil && *size <= *most) {
		return planned
	}
	a["max_size"] = value.NewQuantityUnknown()
	return types.ObjectValueMust(memoryType.AttrTypes, a)
}
