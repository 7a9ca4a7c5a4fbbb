package virtualmachines

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// Schema describes the data source.
func (d *DataSource) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "The fleet's virtual machines, managed or not, filtered by labels, host, phase and condition. " +
			"Each host is read once, in bulk, and that reading is shared with everything else in a plan: what takes a " +
			"question to QEMU, to a guest or to another host is `Unknown` here, and `virtfleet_conditions` asks it of one " +
			"machine. A host that doesn't answer is in `silent_hosts`, and its machines are missing.",
		Attributes: map[string]schema.Attribute{
			"labels": schema.MapAttribute{
				Optional: true, ElementType: types.StringType,
				MarkdownDescription: "Only machines that have all of these labels.",
			},
			"host": schema.StringAttribute{
				Optional: true, MarkdownDescription: "Only machines that are on this host.",
			},
			"phase": schema.StringAttribute{
				Optional: true, MarkdownDescription: "Only machines in this phase: one of " + value.OneOf(status.Phases) + ".",
				Validators: []validator.String{stringvalidator.OneOf(status.Phases...)},
			},
			"condition": schema.SingleNestedAttribute{
				Optional:            true,
				MarkdownDescription: "Only machines with this condition.",
				Attributes: map[string]schema.Attribute{
					"type": schema.StringAttribute{
						Required: true, MarkdownDescription: "Type of the condition: one of " + value.OneOf(status.Types()) + ".",
						Validators: []validator.String{stringvalidator.OneOf(status.Types()...)},
					},
					"status": schema.StringAttribute{
						Optional: true, MarkdownDescription: "What it has to be: `True` (the default), `False` or `Unknown`.",
						Validators: []validator.String{
							stringvalidator.OneOf(string(status.True), string(status.False), string(status.Unknown)),
						},
					},
					"reason": schema.StringAttribute{
						Optional: true, MarkdownDescription: "The reason that it has to have. Not set: any.",
					},
				},
			},
			"ids": schema.ListAttribute{
				Computed: true, ElementType: types.StringType,
				MarkdownDescription: "Ids (UUIDs) of the machines, in the order of their names.",
			},
			"virtual_machines": schema.MapNestedAttribute{
				Computed:            true,
				MarkdownDescription: "The machines by id.",
				NestedObject:        schema.NestedAttributeObject{Attributes: machineAttributes()},
			},
			"silent_hosts": schema.ListAttribute{
				Computed: true, ElementType: types.StringType,
				MarkdownDescription: "Hosts that didn't answer, whose machines are missing.",
			},
		},
	}
}

func machineAttributes() map[string]schema.Attribute {
	text := func(description string) schema.StringAttribute {
		return schema.StringAttribute{Computed: true, MarkdownDescription: description}
	}
	number := func(description string) schema.Int64Attribute {
		return schema.Int64Attribute{Computed: true, MarkdownDescription: description}
	}
	return map[string]schema.Attribute{
		"name": text("Name of the machine. Names are unique on a host, not in a fleet."),
		"host": text("The host that it is on; null when that isn't clear, see `error`."),
		"labels": schema.MapAttribute{
			Computed: true, ElementType: types.StringType, MarkdownDescription: "Its labels.",
		},
		"run_strategy":  text("Its recorded run strategy; null for a machine that nobody manages."),
		"phase":         text("Its phase, as KubeVirt names it."),
		"status":        text("What it does, as KubeVirt prints it."),
		"status_reason": text("Why, in libvirt's words."),
		"conditions": schema.MapAttribute{
			Computed: true, ElementType: types.StringType,
			MarkdownDescription: "Status of every condition, by type: `True`, `False` or `Unknown`.",
		},
		"eviction":        evacuation.RuleAttribute(),
		"evacuation_host": text("The host that it was asked to leave; null while nobody asks."),
		"vcpus":           number("Virtual CPUs that are online, or would be."),
		"memory_bytes":    number("Memory that the guest has, or would have, in bytes."),
		"error": text("Why nobody can tell more: it runs twice, is defined on several hosts, or its host " +
			"can't tell its policies."),
	}
}
