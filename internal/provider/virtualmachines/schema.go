package virtualmachines

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/evacuationsteps"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// Schema describes the data source.
func (d *dataSource) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "Lists the fleet's VMs, managed by Terraform or not, filtered by labels, host, phase and " +
			"condition. The provider reads each host once, for the whole plan. Conditions that only QEMU, a guest or " +
			"another host knows are `Unknown` here; `virtfleet_conditions` reads them for one VM. If a host that may have " +
			"listed VMs doesn't answer, the plan fails. With `on_unreachable = \"keep\"` in the provider block, it warns, " +
			"and the VMs of that host are missing.",
		Attributes: map[string]schema.Attribute{
			"labels": schema.MapAttribute{
				Optional: true, ElementType: types.StringType,
				MarkdownDescription: "Only VMs that have all of these labels. VMs that Terraform doesn't manage have none.",
			},
			"host": schema.StringAttribute{
				Optional: true, MarkdownDescription: "Only VMs that are on this host.",
			},
			"phase": schema.StringAttribute{
				Optional: true, MarkdownDescription: "Only VMs in this phase: one of " + value.OneOf(status.Phases) + ".",
				Validators: []validator.String{value.Among(status.Phases...)},
			},
			"condition": schema.SingleNestedAttribute{
				Optional:            true,
				MarkdownDescription: "Only VMs with this condition.",
				Attributes: map[string]schema.Attribute{
					"type": schema.StringAttribute{
						Required: true, MarkdownDescription: "Type of the condition, such as `" + status.PausedCondition + "`. " +
							"[Condition reasons](../guides/condition-reasons.md) has all.",
						Validators: []validator.String{value.Among(status.Types()...)},
					},
					"status": schema.StringAttribute{
						Optional: true, MarkdownDescription: "Status of the condition: `True`, `False` or `Unknown`. Default: `True`.",
						Validators: []validator.String{
							value.Among(string(status.True), string(status.False), string(status.Unknown)),
						},
					},
					"reason": schema.StringAttribute{
						Optional: true, MarkdownDescription: "Reason of the condition. Default: any.",
					},
				},
			},
			"ids": schema.ListAttribute{
				Computed: true, ElementType: types.StringType,
				MarkdownDescription: "UUIDs of the VMs, in the order of their names.",
			},
			"virtual_machines": schema.MapNestedAttribute{
				Computed:            true,
				MarkdownDescription: "The VMs by id.",
				NestedObject:        schema.NestedAttributeObject{Attributes: vmAttributes()},
			},
			"unreachable_hosts": schema.ListAttribute{
				Computed: true, ElementType: types.StringType,
				MarkdownDescription: "Hosts that didn't answer, whose VMs are missing.",
			},
		},
	}
}

func vmAttributes() map[string]schema.Attribute {
	text, number := value.ReportedString, value.ReportedNumber
	return map[string]schema.Attribute{
		"name":         text("Name of the VM. Two hosts can have VMs of one name if another tool created one."),
		"current_host": text("Host that the VM is on. Null if that isn't certain, see `error`."),
		"labels": schema.MapAttribute{
			Computed: true, ElementType: types.StringType, MarkdownDescription: "Labels of the VM.",
		},
		"run_strategy":  text("Recorded run strategy. Null for a VM that this provider doesn't manage."),
		"phase":         text("Phase of the VM, as KubeVirt names it."),
		"status":        text("Status of the VM, as KubeVirt prints it."),
		"status_reason": text("libvirt's reason for the status."),
		"conditions": schema.MapAttribute{
			Computed: true, ElementType: types.StringType,
			MarkdownDescription: "Status of every condition, by type: `True`, `False` or `Unknown`.",
		},
		"eviction":        evacuationsteps.RuleAttribute(),
		"evacuation_host": text("Host that the VM was asked to leave. Null if there is no such request."),
		"vcpus":           number("Virtual CPUs that are online, or would be if the VM ran."),
		"memory_bytes":    number("Memory that the guest has, or would have if the VM ran."),
		"error": text("Why attributes are null: the VM runs twice, is defined on several hosts, or its host doesn't " +
			"report its policies."),
	}
}
