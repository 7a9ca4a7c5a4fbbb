package virtualmachine

import (
	"fmt"
	"maps"
	"strconv"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/attrpath"
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
			MarkdownDescription: "Whether such a VM must never share a host with this one: if no other host fits, neither " +
				"is created or moved. Default: `false`, which only prefers other hosts for a new VM, not in a move.",
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
	"dedicated_cpus": schema.BoolAttribute{
		MarkdownDescription: "Whether no other VM may be pinned to this VM's CPUs. `cpu.pin` must name each virtual CPU. " +
			"See [CPUs](../guides/host-capacity.md#cpus). Default: `false`, which only prefers hosts where these are free.",
		Optional: true,
	},
}

var placementType = objectType(placementAttributes)

func placementToFleet(o types.Object) fleet.Placement {
	a := open(o)
	p := fleet.Placement{
		HostLabels: value.StringMap(a.stringMap("host_labels")), DedicatedCPUs: a.bool("dedicated_cpus").ValueBool(),
	}
	if away := a.object("anti_affinity"); isSet(away) {
		b := open(away)
		p.AntiAffinity = &fleet.AntiAffinity{
			Labels:   value.StringMap(b.stringMap("labels")),
			Required: b.bool("required").ValueBool(),
		}
	}
	return p
}

// placementFromFleet returns placement as the VM's metadata has it, in the notation of prior where that means the same.
// A preference isn't recorded, because no later move has to know it: it stays as in prior.
func placementFromFleet(recorded domain.Metadata, prior types.Object) types.Object {
	as := fleet.Desired{Placement: placementToFleet(prior)}.Stamp()
	labels, away := maps.Equal(as.HostLabels, recorded.HostLabels), maps.Equal(as.Avoids, recorded.Avoids)
	if labels && away && as.DedicatedCPUs == recorded.DedicatedCPUs {
		return prior
	}
	a := open(prior)
	if a == nil {
		a = nullAttributes(placementAttributes)
	}
	if !labels {
		a["host_labels"] = value.NewStringMap(recorded.HostLabels)
	}
	if !away {
		a["anti_affinity"] = types.ObjectNull(antiAffinityType.AttrTypes)
	}
	if !away && len(recorded.Avoids) > 0 {
		a["anti_affinity"] = types.ObjectValueMust(antiAffinityType.AttrTypes, object{
			"labels": value.NewStringMap(recorded.Avoids), "required": types.BoolValue(true),
		})
	}
	if as.DedicatedCPUs != recorded.DedicatedCPUs {
		a["dedicated_cpus"] = types.BoolNull()
		if recorded.DedicatedCPUs {
			a["dedicated_cpus"] = types.BoolValue(true)
		}
	}
	for _, v := range a {
		if !v.IsNull() {
			return types.ObjectValueMust(placementType.AttrTypes, a)
		}
	}
	return types.ObjectNull(placementType.AttrTypes)
}

// validateDedicatedCPUs checks, if dedicated CPUs are requested, that each virtual CPU has host CPUs of its own.
func (m *model) validateDedicatedCPUs() diag.Diagnostics {
	at := path.Root("placement").AtName("dedicated_cpus")
	cpu := open(m.CPU)
	if !open(m.Placement).bool("dedicated_cpus").ValueBool() || !isKnown(m.CPU) {
		return nil
	}
	pins := value.StringMap(cpu.stringMap("pin"))
	vcpus := int(cpu.int("vcpus").ValueInt64())
	for n := range max(vcpus, 1) {
		if pins[strconv.Itoa(n)] == "" {
			return diag.Diagnostics{attrpath.Error(at, invalid, fmt.Sprintf(
				"cpu.pin doesn't say on which CPUs of the host virtual CPU %d runs.", n))}
		}
	}
	return nil
}
