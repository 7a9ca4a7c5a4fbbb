package virtualmachine

import (
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

var memoryAttributes = mergeAttributes(blockLevels["memory"], attributes{
	"size": schema.StringAttribute{
		MarkdownDescription: "Memory of the guest: a [size](../guides/values-and-names.md#sizes) such as `2Gi`. Sizes are " +
			"compared by value: `2Gi` equals `2048Mi`. Required for a new VM. While the VM runs, it shrinks by the " +
			"balloon, and grows by the balloon up to what the VM started with, then by plugged memory.",
		CustomType: value.WholeKiBType,
		Optional:   true,
		Computed:   true,
	},
	"max_size": schema.StringAttribute{
		MarkdownDescription: "Limit, while the VM runs, for the sum of `memory.size` and the sizes of " +
			"`devices.virtio_mem` and `devices.nvdimms`. `\"0\"` removes it.",
		CustomType: value.WholeKiBOrZeroType,
		Optional:   true,
		Computed:   true,
	},
})

var memoryType = objectType(memoryAttributes)

func memoryToDomain(o types.Object) domain.Memory {
	a := open(o)
	return domain.Memory{Size: a.quantity("size").Bytes(), MaxSize: a.quantity("max_size").Bytes()}
}

func memoryFromDomain(s domain.Spec, prior *model) types.Object {
	a := map[string]attr.Value{
		"size":     value.NewQuantityPointer(s.Memory.Size),
		"max_size": value.NewQuantityPointer(s.Memory.MaxSize),
	}
	readRows(a, "memory", rowReader{facts: s.Values}, open(prior.Memory), prior.Name.IsNull())
	return types.ObjectValueMust(memoryType.AttrTypes, a)
}

// planMemory drops a planned maximum that isn't declared and is below the size.
func planMemory(config, planned types.Object) types.Object {
	if !isSet(config) || !isSet(planned) {
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
