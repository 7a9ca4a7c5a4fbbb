package domainstats

import (
	"context"
	"maps"

	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/onevm"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// Schema describes the data source.
func (d *dataSource) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	attributes := onevm.Attributes("virtual_machines", "selector")
	maps.Copy(attributes, ownAttributes())
	resp.Schema = schema.Schema{
		MarkdownDescription: "Reads libvirt's statistics of VMs: processors, memory, disks, interfaces. The provider " +
			"asks each host once for all its VMs. Counters begin at 0 when a VM starts on a host or arrives there. " +
			"Values that aren't reported are null. If the reason is known, it is in `unavailable`.",
		Attributes: attributes,
	}
}

// ownAttributes returns all attributes except those that select one VM.
func ownAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"virtual_machines": schema.ListAttribute{
			Optional: true, ElementType: types.StringType,
			MarkdownDescription: "UUIDs of several VMs.",
			Validators:          []validator.List{listvalidator.ValueStringsAre(value.VirtualMachineID())},
		},
		"selector": schema.SingleNestedAttribute{
			Optional: true,
			MarkdownDescription: "Selects VMs. If a host of the fleet doesn't answer, the plan fails. With `on_unreachable = " +
				"\"keep\"` in the provider block, it warns, and the VMs that only this host has aren't in `stats`.",
			Attributes: map[string]schema.Attribute{
				"labels": schema.MapAttribute{
					Optional: true, ElementType: types.StringType,
					MarkdownDescription: "Labels that a VM must have, all of them. Default: every VM.",
				},
			},
		},
		"interval": schema.StringAttribute{
			Optional: true, CustomType: value.DurationType,
			MarkdownDescription: "Time between two samples, from which rates and percentages are calculated: " +
				"a [time](../guides/values-and-names.md#times) such as `5s`. Default: one sample, and all rates are null.",
		},
		"dirty_rate_period": schema.StringAttribute{
			Optional: true, CustomType: value.DurationType,
			MarkdownDescription: "How long to measure the rate at which guests write to their memory: `1s` to `60s`, in " +
				"whole seconds. Default: it isn't measured.",
		},
		"dirty_rate_mode": schema.StringAttribute{
			Optional: true,
			MarkdownDescription: "How the dirty rate is measured. `page-sampling` compares samples. `dirty-bitmap` logs every " +
				"write, and slows the guest down. `dirty-ring` needs KVM's dirty ring, which only a definition made by hand " +
				"enables. These two require libvirt 8.1 and KVM. Default: `page-sampling`.",
			Validators: []validator.String{
				value.Among(string(libvirt.DirtyRatePageSampling), string(libvirt.DirtyRateBitmap),
					string(libvirt.DirtyRateRing)),
				stringvalidator.AlsoRequires(path.MatchRoot("dirty_rate_period")),
			},
		},
		"jobs": schema.BoolAttribute{
			Optional: true,
			MarkdownDescription: "Whether to read the job in progress, such as a migration. This needs one more call " +
				"for each VM. Default: `false`.",
		},
		"stats": schema.MapNestedAttribute{
			Computed:            true,
			MarkdownDescription: "The statistics, by the ids of the VMs.",
			NestedObject:        schema.NestedAttributeObject{Attributes: vmAttributes()},
		},
	}
}

// vmAttributes returns the attributes of one VM.
func vmAttributes() map[string]schema.Attribute {
	all := map[string]schema.Attribute{
		"cpu":   cpuFields.singleAttribute("The processors together."),
		"vcpus": vcpuFields.byKey("The virtual CPUs that are online, by their numbers."),
		"memory": memoryFields.singleAttribute(
			"Memory. Values that only the guest knows come from the driver of its balloon. They are null or old " +
				"unless `memory.balloon.stats_period` is set."),
		"disks": diskFields.byKey("The disks, by their keys in the VM's `disks`."),
		"interfaces": nicFields.byKey("The network interfaces that have a device on the host, by their keys in " +
			"the VM's `interfaces`."),
		"job": jobFields.singleAttribute("The job that runs. Null without `jobs`, or when none runs."),
		"perf": schema.MapAttribute{
			Computed: true, ElementType: types.Int64Type,
			MarkdownDescription: "Counters of the perf events that the definition enables.",
		},
		"unavailable": schema.MapAttribute{
			Computed: true, ElementType: types.StringType,
			MarkdownDescription: "Why values are null although they were requested, by group: `statistics`, `rates`, " +
				"`dirty_rate`, `job`.",
		},
	}
	maps.Copy(all, factFields.attributes())
	return all
}
