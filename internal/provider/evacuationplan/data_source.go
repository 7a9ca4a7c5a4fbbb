package evacuationplan

import (
	"context"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/eviction"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/tfdiag"
)

// TypeName is the data source's full name.
const TypeName = "virtfleet_evacuation_plan"

var (
	_ datasource.DataSource              = (*DataSource)(nil)
	_ datasource.DataSourceWithConfigure = (*DataSource)(nil)
)

// DataSource says how a host would be emptied.
type DataSource struct{ meta.DataSource }

// NewDataSource returns the data source.
func NewDataSource() datasource.DataSource { return &DataSource{meta.DataSource{TypeName: TypeName}} }

// model is the data source's state.
type model struct {
	Host        types.String      `tfsdk:"host"`
	MoveStopped types.Bool        `tfsdk:"move_stopped"`
	Steps       []evacuation.Step `tfsdk:"steps"`
	Blocked     types.Bool        `tfsdk:"blocked"`
	Recorded    types.Bool        `tfsdk:"under_maintenance"`
}

// Schema describes the data source.
func (d *DataSource) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "How a host would be emptied: what happens to each of its virtual machines, where it goes and " +
			"what is in the way. Nothing is touched. Targets are chosen for all machines together, within every host's memory " +
			"and `placement.anti_affinity`. For a host that is under maintenance these are the steps of that, so that " +
			"`virtfleet_host_maintenance` can take them and doesn't change afterwards. Once a drain has failed or was stopped " +
			"they are what the next one would do: what was done already, and the rest as things are now.",
		Attributes: map[string]schema.Attribute{
			"host": schema.StringAttribute{
				Required:            true,
				MarkdownDescription: "Name of the host in the provider's `hosts`.",
			},
			"move_stopped": schema.BoolAttribute{
				Optional:            true,
				MarkdownDescription: "Whether machines that are off are moved, too. Default: `false`, they stay.",
			},
			"steps": schema.ListNestedAttribute{
				Computed: true,
				MarkdownDescription: "One step for each machine, in the order in which they leave: by the `priority` of their " +
					"policies, then by name.",
				NestedObject: schema.NestedAttributeObject{Attributes: evacuation.DataSource()},
			},
			"blocked": schema.BoolAttribute{
				Computed:            true,
				MarkdownDescription: "Whether a machine keeps the host from being emptied. Its step says why.",
			},
			"under_maintenance": schema.BoolAttribute{
				Computed:            true,
				MarkdownDescription: "Whether the host is under maintenance, and the steps are those of that.",
			},
		},
	}
}

// Read makes the plan.
func (d *DataSource) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	var m model
	resp.Diagnostics.Append(req.Config.Get(ctx, &m)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if d.Data.Unknown {
		resp.Diagnostics.Append(d.Data.UnknownError("plan", "evacuation"))
		return
	}
	began := time.Now()
	plan, err := d.Data.Fleet.PlanEvacuation(ctx, m.Host.ValueString(), m.MoveStopped.ValueBool(), "")
	if err != nil {
		resp.Diagnostics.Append(tfdiag.Failure{
			Verb: "plan", Noun: "evacuation", Host: m.Host.ValueString(), Elapsed: time.Since(began), Err: err,
		}.Error())
		return
	}
	m.Steps = evacuation.FromFleet(plan.Steps)
	m.Blocked = types.BoolValue(len(eviction.Blocked(plan.Steps)) > 0)
	m.Recorded = types.BoolValue(plan.Recorded)
	resp.Diagnostics.Append(resp.State.Set(ctx, m)...)
}
