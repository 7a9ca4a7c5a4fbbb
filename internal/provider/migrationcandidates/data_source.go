package migrationcandidates

import (
	"context"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/moving"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/tfdiag"
)

// TypeName is the data source's full name.
const TypeName = "virtfleet_migration_candidates"

var (
	_ datasource.DataSource              = (*DataSource)(nil)
	_ datasource.DataSourceWithConfigure = (*DataSource)(nil)
)

// DataSource judges every host as the target of a move.
type DataSource struct{ meta.DataSource }

// NewDataSource returns the data source.
func NewDataSource() datasource.DataSource { return &DataSource{meta.DataSource{TypeName: TypeName}} }

// Read finds the virtual machine and asks every host about it.
func (d *DataSource) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	var m model
	if !d.Reads(ctx, "migration candidates", &m, req, resp) {
		return
	}
	resp.Diagnostics.Append(moving.Validate(m.MigrationOptions, path.Root(moving.Name))...)
	if resp.Diagnostics.HasError() {
		return
	}
	began := time.Now()
	id := m.VirtualMachineID.ValueString()
	vm, all, tuning, err := d.Data.Fleet.MoveCandidates(ctx, id, fleet.LastKnown{}, moving.Options(m.MigrationOptions),
		m.RawCommands.ValueBool())
	if err != nil {
		f := tfdiag.Failure{
			Verb: "read", Noun: "migration candidates", VirtualMachine: id, Elapsed: time.Since(began), Err: err,
		}
		resp.Diagnostics.Append(f.Error())
		return
	}
	m.fromFleet(vm, all, tuning)
	resp.Diagnostics.Append(resp.State.Set(ctx, &m)...)
}
