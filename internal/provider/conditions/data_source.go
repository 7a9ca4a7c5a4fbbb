package conditions

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/datasource"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/observe"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/tfdiag"
)

// TypeName is the data source's full name.
const TypeName = "virtfleet_conditions"

var (
	_ datasource.DataSource              = (*dataSource)(nil)
	_ datasource.DataSourceWithConfigure = (*dataSource)(nil)
)

// dataSource reads what every layer reports about one VM.
type dataSource struct{ meta.DataSource }

// NewDataSource returns the data source.
func NewDataSource() datasource.DataSource {
	return &dataSource{meta.DataSource{TypeName: TypeName, Verb: "read", Noun: "conditions"}}
}

// Read queries all layers at the same time. What a layer doesn't report is unknown. If the VM's host is unreachable,
// almost everything is.
func (d *dataSource) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	var config model
	failure, ok := d.Begin(ctx, &config, req, resp)
	if !ok {
		return
	}
	seen, err := d.Data.Fleet.Observe(ctx, observe.Question{
		UUID: config.ID.ValueString(), Name: config.Name.ValueString(), RawCommands: config.RawCommands.ValueBool(),
		Target: config.TargetHost.ValueString(),
	})
	if err != nil {
		resp.Diagnostics.Append(failure(tfdiag.Failure{VirtualMachine: config.Text(), Err: err}).Error())
		return
	}
	state, diags := config.fromObservation(ctx, seen)
	resp.Diagnostics.Append(diags...)
	resp.Diagnostics.Append(resp.State.Set(ctx, state)...)
}
