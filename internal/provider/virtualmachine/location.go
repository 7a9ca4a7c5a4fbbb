package virtualmachine

import (
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// What the hosts have of the VM. An apply repairs what shouldn't be there.

const locationName = "location"

var locationAttributes = attributes{
	"host_uuid": computedString("libvirt's UUID of `current_host`, which identifies the host after it was renamed or " +
		"removed. Null if libvirt reports none."),
	"persistent": schema.BoolAttribute{
		MarkdownDescription: "Whether the VM has a persistent definition. If a running VM lost it, as by `virsh undefine`, " +
			"an apply defines it again. A VM that was imported without one doesn't get one.",
		Computed: true,
	},
	"stale_definitions": schema.ListAttribute{
		MarkdownDescription: "Other hosts that have a stale definition of the VM. An apply removes these definitions.",
		ElementType:         types.StringType,
		Computed:            true,
	},
	"left_volumes": schema.ListAttribute{
		MarkdownDescription: "What an apply couldn't remove: volumes of disks with `pool` and of replaced first-boot " +
			"media, as `<host>: <pool>/<volume>`; as `<host>: <path>`, unfinished copies of moves, and originals if " +
			"`keep_source_disks = false`. " +
			"An apply removes them, unless something uses them or the disk is declared again.",
		ElementType: types.StringType,
		Computed:    true,
	},
}

var locationType = objectType(locationAttributes)

func locationAttribute() schema.Attribute {
	return schema.SingleNestedAttribute{
		MarkdownDescription: "Where the hosts have definitions and volumes of the VM.",
		Attributes:          locationAttributes, CustomType: locationType, Computed: true,
	}
}

func locationFromFleet(vm *fleet.VM) types.Object {
	return types.ObjectValueMust(locationType.AttrTypes, map[string]attr.Value{
		"host_uuid":         value.NewStringOrNull(vm.HostUUID),
		"persistent":        types.BoolValue(vm.Persistent),
		"stale_definitions": staleFromFleet(vm.StaleHosts),
		"left_volumes":      staleFromFleet(vm.LeftVolumes()),
	})
}

// planLocation plans attributes of the location. The others keep their values.
func (m *model) planLocation(planned map[string]attr.Value) {
	all := open(m.Location)
	if all == nil {
		return
	}
	changed := false
	for name, v := range planned {
		changed = changed || !v.Equal(all[name])
		all[name] = v
	}
	if changed {
		m.Location = types.ObjectValueMust(locationType.AttrTypes, all)
	}
}

// planOtherHost plans the VM's host as unknown until apply.
func (m *model) planOtherHost() {
	m.planLocation(map[string]attr.Value{"host_uuid": types.StringUnknown()})
}
