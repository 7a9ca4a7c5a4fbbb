package virtualmachine

import (
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

var (
	antiAffinityAttributes = attributes{
		"labels": schema.MapAttribute{
			MarkdownDescription: "Avoid hosts of VMs that have all of these labels.",
			ElementType:         types.StringType,
			Required:            true,
		},
		"required": schema.BoolAttribute{
			MarkdownDescription: "Whether such a VM must never share a host with this one. If no other host fits, " +
				"creating or moving the VM fails. Such VMs are also kept away from this VM's host. Default: `false`, " +
				"which only prefers other hosts.",
			Optional: true,
		},
	}
	antiAffinityType = objectType(antiAffinityAttributes)
)

var placementAttributes = attributes{
	"host_labels": schema.MapAttribute{
		MarkdownDescription: "Labels that the host must have.",
		ElementType:         types.StringType,
		Optional:            true,
	},
	"anti_affinity": schema.SingleNestedAttribute{
		MarkdownDescription: "VMs that shouldn't share a host with this one.",
		Attributes:          antiAffinityAttributes,
		CustomType:          antiAffinityType,
		Optional:            true,
	},
}

var placementType = objectType(placementAttributes)

func placementToFleet(o types.Object) fleet.Placement {
	a := open(o)
	p := fleet.Placement{HostLabels: value.StringMap(a.stringMap("host_labels"))}
	if away := a.object("anti_affinity"); isSet(away) {
		b := open(away)
		p.AntiAffinity = &fleet.AntiAffinity{
			Labels:   value.StringMap(b.stringMap("labels")),
			Required: b.bool("required").ValueBool(),
		}
	}
	return p
}
