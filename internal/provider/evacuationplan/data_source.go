package evacuationplan

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/evacuationsteps"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/tfdiag"
)

// TypeName is the data source's full name.
const TypeName = "virtfleet_evacuation_plan"

var (
	_ datasource.DataSource              = (*dataSource)(nil)
	_ datasource.DataSourceWithConfigure = (*dataSource)(nil)
)

// dataSource plans the drain of a host.
type dataSource struct{ meta.DataSource }

// NewDataSource returns the data source.
func NewDataSource() datasource.DataSource {
	return &dataSource{meta.DataSource{TypeName: TypeName, Verb: "plan", Noun: "evacuation"}}
}

// model is the data source's state.
type model struct {
	Host        types.String           `tfsdk:"host"`
	MoveStopped types.Bool             `tfsdk:"move_stopped"`
	RawCommands types.Bool             `tfsdk:"raw_commands"`
	Steps       []evacuationsteps.Step `tfsdk:"steps"`
	Blocked     types.Bool             `tfsdk:"blocked"`
	Recorded    types.Bool             `tfsdk:"under_maintenance"`
}

// Schema describes the data source.
func (d *dataSource) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "Shows how a host would be drained: what happens to each VM, where it goes, and what " +
			"blocks it. Nothing is changed. Targets are chosen for all VMs together, so that they fit into the memory, " +
			"storage, devices and guaranteed bandwidth of the other hosts, and no required `placement.anti_affinity` is " +
			"violated. While the host is under maintenance, " +
			"`steps` are the steps of that maintenance, so the next plan of the `virtfleet_host_maintenance` that " +
			"uses them is empty. After a drain that failed or was stopped, `steps` are the finished steps, and new " +
			"steps for the rest.",
		Attributes: map[string]schema.Attribute{
			"host": schema.StringAttribute{
				Required:            true,
				MarkdownDescription: "Name of the host in the provider's `hosts`.",
			},
			"move_stopped": schema.BoolAttribute{
				Optional:            true,
				MarkdownDescription: "Whether VMs that are off are moved too. Default: `false`, they stay.",
			},
			"raw_commands": schema.BoolAttribute{
				Optional: true,
				MarkdownDescription: "Whether to ask QEMU what it refuses to migrate, as a drain does. Without it, an apply with " +
					"these `steps` may fail. libvirt marks the VMs as tainted, which has no effect. Default: `false`.",
			},
			"steps": schema.ListNestedAttribute{
				Computed: true,
				MarkdownDescription: "One step for each VM, in the order in which they leave: by the `priority` of their " +
					"policies, then by name. Null if the host is fenced, or doesn't answer and the provider's " +
					"`on_unreachable` is `keep`, and it isn't under maintenance.",
				NestedObject: schema.NestedAttributeObject{Attributes: evacuationsteps.DataSource()},
			},
			"blocked": schema.BoolAttribute{
				Computed: true,
				MarkdownDescription: "Whether a step has the method `Blocked`: then the plan of a drain fails. Null if " +
					"`steps` is.",
			},
			"under_maintenance": schema.BoolAttribute{
				Computed: true,
				MarkdownDescription: "Whether the host is under maintenance, even if its drain failed. `steps` are " +
					"those of its drain then: the finished ones, and new ones for the rest. Null if `steps` is.",
			},
		},
	}
}

// Read computes the plan.
func (d *dataSource) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	var m model
	failure, ok := d.Begin(ctx, &m, req, resp)
	if !ok {
		return
	}
	plan, err := d.Data.Fleet.PlanEvacuation(ctx, m.Host.ValueString(), fleet.EvacuationQuery{
		MoveStopped: m.MoveStopped.ValueBool(), AskQEMU: m.RawCommands.ValueBool(),
	})
	if err != nil {
		f := failure(tfdiag.Failure{Host: m.Host.ValueString(), Err: err})
		host := d.Data.Fleet.Host(m.Host.ValueString())
		// One silent or fenced host must not stop the plans of a folder that previews the drain of each host.
		switch {
		case host != nil && host.Config.Fenced:
			f.Remedy = "Its steps are null. The virtual machines of a fenced host are created on other hosts, without a drain."
		case d.Keeps(err):
			f.Remedy = "Its steps are null, because on_unreachable is \"keep\"."
		default:
			resp.Diagnostics.Append(f.Error())
			return
		}
		resp.Diagnostics.Append(f.Warning())
		resp.Diagnostics.Append(resp.State.Set(ctx, m)...)
		return
	}
	if doubts := evacuationsteps.DoubtText(plan.Steps); doubts != "" && !plan.Recorded {
		resp.Diagnostics.Append(tfdiag.Problems([]fleet.Problem{{
			Attribute: "host", Summary: "Unable to determine whether the virtual machine can be moved", Warning: true,
			Detail: fmt.Sprintf("To drain host %q, virtual machines are to be moved while they run. These checks have no "+
				"result yet. If one of them blocks the move, the drain does what fallback says, or fails:\n%s",
				m.Host.ValueString(), doubts),
		}})...)
	}
	for _, problem := range []*fleet.Problem{plan.OnItsWay, plan.UnknownPins} {
		if problem != nil {
			resp.Diagnostics.Append(tfdiag.Problems([]fleet.Problem{*problem})...)
		}
	}
	m.Steps = evacuationsteps.FromFleet(plan.Steps)
	m.Blocked = types.BoolValue(len(evacuation.BlockedSteps(plan.Steps)) > 0)
	m.Recorded = types.BoolValue(plan.Recorded)
	resp.Diagnostics.Append(resp.State.Set(ctx, m)...)
}
