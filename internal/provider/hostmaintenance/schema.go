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

	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

var resultType = types.ObjectType{AttrTypes: map[string]attr.Type{
	"id": types.StringType, "name": types.StringType, "method": types.StringType, "target": types.StringType,
	"result": types.StringType, "reason": types.StringType,
}}

// Schema describes the resource.
func (r *Resource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "Puts a host under maintenance: no virtual machine is placed on it or moved to it any more, " +
			"by anybody who uses this provider, and those that run there leave, each as its `virtfleet_eviction_policy` " +
			"says. When apply returns the host is empty. Destroying it lets machines come again. What was shut " +
			"down or saved stays so meanwhile, whatever its `run_strategy`. An apply that is interrupted begins nothing new, " +
			"aborts the moves that run, except for those with `on_cancel = \"finish\"` in their policy and for guests that " +
			"their targets have already, and says what is where. One that is killed leaves nothing in the " +
			"state: apply again, or import it by the host's name to destroy it.",
		Attributes: map[string]schema.Attribute{
			"id": schema.StringAttribute{
				MarkdownDescription: "Name of the host.", Computed: true,
				PlanModifiers: []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
			},
			"host": schema.StringAttribute{
				MarkdownDescription: "Name of the host in the provider's `hosts`.", Required: true,
				PlanModifiers: []planmodifier.String{stringplanmodifier.RequiresReplace()},
				Validators:    []validator.String{stringvalidator.LengthAtLeast(1)},
			},
			"steps": schema.ListNestedAttribute{
				MarkdownDescription: "What is to be done, as `virtfleet_evacuation_plan` says it. It is followed exactly: where " +
					"the world has changed so that it no longer holds, apply stops before it touches anything more, be that the " +
					"first machine or a later one, ends what is under way as an interrupted apply does, and says what changed. The " +
					"next plan has steps that hold for the rest. Omitted: the plan shows what would be done now as a warning, and " +
					"apply does what is right then.",
				Optional:     true,
				NestedObject: schema.NestedAttributeObject{Attributes: evacuation.Resource()},
			},
			"move_stopped": schema.BoolAttribute{
				MarkdownDescription: "Whether machines that are off are moved, too. Default: `false`, they stay.",
				Optional:            true,
			},
			"restore": schema.BoolAttribute{
				MarkdownDescription: "Whether destroying it brings back what was moved, and starts what was shut down or saved. " +
					"Default: `false`. After a drain that failed nothing is brought back. Disks that were copied come back as " +
					"they are by then, in place of the images that were kept here, as long as those are unchanged and unused. " +
					"What could not be restored is an error, and destroying it again goes on with that.",
				Optional: true,
			},
			"reason": schema.StringAttribute{
				MarkdownDescription: "Why, for those whom the host refuses. It may be changed meanwhile. Default: `maintenance`.",
				Optional:            true,
				Validators:          []validator.String{stringvalidator.LengthAtLeast(1)},
			},
			"timeouts": timeoutsAttribute(ctx),
			"drained": schema.BoolAttribute{
				MarkdownDescription: "Whether nothing runs on the host.", Computed: true,
			},
			"results": schema.ListNestedAttribute{
				MarkdownDescription: "What became of each virtual machine.",
				Computed:            true,
				NestedObject: schema.NestedAttributeObject{
					CustomType: resultType,
					Attributes: map[string]schema.Attribute{
						"id":     result("UUID of the virtual machine."),
						"name":   result("Its name."),
						"method": result("What was to be done with it."),
						"target": result("Host that it went to, or was to go to. Null: none."),
						"result": result("What was done with it: `Moved`, `ColdMoved`, `ShutDown`, `Saved`, `Left` or `Failed`. Null: " +
							"nothing yet."),
						"reason": result("Why it failed."),
					},
				},
			},
		},
	}
}

func result(description string) schema.Attribute {
	return schema.StringAttribute{MarkdownDescription: description, Computed: true}
}

func timeoutsAttribute(ctx context.Context) schema.Attribute {
	return value.Timeouts(ctx, timeouts.Opts{
		Create: true, Update: true, Delete: true,
		CreateDescription: "For emptying the host. What fails is tried again as long as there is time. Default: `1h`.",
		UpdateDescription: "For emptying it again, where machines have come. Default: `1h`.",
		DeleteDescription: "For ending the maintenance, and for bringing back what was moved. Default: `1h`.",
	})
}
