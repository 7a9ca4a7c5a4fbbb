package hostmaintenance

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/evacuationsteps"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

var resultType = types.ObjectType{AttrTypes: map[string]attr.Type{
	"virtual_machine_id": types.StringType, "name": types.StringType, "method": types.StringType,
	"target": types.StringType, "result": types.StringType, "reason": types.StringType,
}}

// Schema describes the resource.
func (r *Resource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "Puts a host under maintenance: closes it to VMs (cordon) and drains it. While it is closed, " +
			"no Terraform run creates, moves or starts VMs there. The drain moves, shuts down or saves each running VM, by " +
			"its [eviction strategy](../guides/eviction-strategies.md). When the apply succeeds, no VM runs on the host.\n\n" +
			"A VM that should be moved stays if its own `host` is this host, and the apply fails: change its `host` first. " +
			"**VMs that were shut down or saved stay off during the maintenance, even with `run_strategy = \"Always\"`.** " +
			"Destroying the resource opens the host again; `restore` brings the VMs back.\n\n" +
			"[Draining a host](../guides/draining-a-host.md) shows a maintenance step by step. If a drain fails, is " +
			"cancelled or is killed, see [When a drain stops](../guides/when-a-drain-stops.md).",
		Attributes: map[string]schema.Attribute{
			"id": value.StableString("Id of this maintenance, recorded on the host. While the maintenance lasts, no other " +
				"resource for the host ends it or restores what it moved."),
			"host": schema.StringAttribute{
				MarkdownDescription: "Name of the host in the provider's `hosts`. Another host replaces the maintenance. If " +
					"its key there changes, change it here too, while the host answers: its maintenance is found by `id`.",
				Required:      true,
				PlanModifiers: []planmodifier.String{stringplanmodifier.RequiresReplace()},
				Validators:    []validator.String{stringvalidator.LengthAtLeast(1)},
			},
			"steps": schema.ListNestedAttribute{
				MarkdownDescription: "Steps to carry out, from `virtfleet_evacuation_plan`. The apply does exactly these, and " +
					"stops if one is no longer possible. Default: the apply computes them; the plan's warning is a preview.",
				Optional:     true,
				NestedObject: schema.NestedAttributeObject{Attributes: evacuationsteps.Resource()},
			},
			"move_stopped": schema.BoolAttribute{
				MarkdownDescription: "Whether VMs that are off are moved too. Default: `false`, they stay.",
				Optional:            true,
			},
			"restore": schema.BoolAttribute{
				MarkdownDescription: "Whether a destroy [brings back](../guides/draining-a-host.md#open-the-host-again) VMs that " +
					"moved and starts those that were shut down or saved; its plan lists them. The value of the last apply " +
					"counts. Default: `false`.",
				Optional: true,
			},
			"reason": schema.StringAttribute{
				MarkdownDescription: "Reason, shown in errors when the host refuses a VM. It can be changed during the " +
					"maintenance. Default: `maintenance`.",
				Optional:   true,
				Validators: []validator.String{stringvalidator.LengthAtLeast(1)},
			},
			"timeouts": timeoutsAttribute(ctx),
			"drained": schema.BoolAttribute{
				MarkdownDescription: "Whether nothing runs on the host. `false` if VMs were started there after the drain; " +
					"the next apply drains the host again.", Computed: true,
			},
			"results": schema.ListNestedAttribute{
				MarkdownDescription: "What was done with each VM.",
				Computed:            true,
				NestedObject: schema.NestedAttributeObject{
					CustomType: resultType,
					Attributes: map[string]schema.Attribute{
						"virtual_machine_id": resultAttribute("UUID of the VM."),
						"name":               resultAttribute("Name of the VM."),
						"method":             resultAttribute("What was to be done with the VM."),
						"target":             resultAttribute("Host that the VM was moved to, or was to be moved to. Null: none."),
						"result": resultAttribute(
							"What was done with the VM: `Moved`, `ColdMoved`, `ShutDown`, `Saved`, `Left` (it was off and stayed on this " +
								"host) or `Failed` (also if it is pinned). With `External`, `Moved` also means that it was shut down or " +
								"removed. Null: nothing yet."),
						"reason": resultAttribute("Why it failed, or that its guest was forced off."),
					},
				},
			},
		},
	}
}

func resultAttribute(description string) schema.Attribute {
	return schema.StringAttribute{MarkdownDescription: description, Computed: true}
}

func timeoutsAttribute(ctx context.Context) schema.Attribute {
	return value.Timeouts(ctx, timeouts.Opts{
		Create: true, Update: true, Delete: true,
		CreateDescription: "For draining the host. A move that fails is tried again until then. After that, the apply " +
			"fails, and the host stays closed: apply again. Nothing is added to a value that you set. " +
			"Default: `1h`, and 5 minutes more for each GB of memory and disks to copy.",
		UpdateDescription: "For draining the host again, if VMs were started there. Default: as for `create`.",
		DeleteDescription: "For ending the maintenance, including restoring VMs. After that, the destroy fails, and the " +
			"resource stays: destroy it again. Default: as for `create`.",
	})
}
