package migrationcandidates

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/migrationoptions"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/tfdiag"
)

// TypeName is the data source's full name.
const TypeName = "virtfleet_migration_candidates"

var (
	_ datasource.DataSource              = (*dataSource)(nil)
	_ datasource.DataSourceWithConfigure = (*dataSource)(nil)
)

// dataSource checks every host as the target of a move.
type dataSource struct{ meta.DataSource }

// NewDataSource returns the data source.
func NewDataSource() datasource.DataSource {
	return &dataSource{meta.DataSource{TypeName: TypeName, Verb: "read", Noun: "migration candidates"}}
}

// Read finds the VM and asks every host whether the VM could move there.
func (d *dataSource) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	var m model
	failure, ok := d.Begin(ctx, &m, req, resp)
	if !ok {
		return
	}
	resp.Diagnostics.Append(migrationoptions.Validate(m.MigrationOptions, path.Root(migrationoptions.Name))...)
	if resp.Diagnostics.HasError() {
		return
	}
	if err := d.readCandidates(ctx, &m); err != nil {
		f := failure(tfdiag.Failure{VirtualMachine: m.Text(), Err: err})
		if !d.Keeps(err) {
			resp.Diagnostics.Append(f.Error())
			return
		}
		f.Remedy = "All values are null, because on_unreachable is \"keep\"."
		resp.Diagnostics.Append(f.Warning())
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, &m)...)
}

func (d *dataSource) readCandidates(ctx context.Context, m *model) error {
	vm, err := m.Find(ctx, d.Data.Fleet)
	if err != nil {
		return err
	}
	vm, all, effective, err := d.Data.Fleet.MoveCandidates(ctx, vm.UUID, fleet.LastKnown{},
		migrationoptions.Options(m.MigrationOptions), m.RawCommands.ValueBool())
	if err != nil {
		return err
	}
	m.fromFleet(vm, all, effective)
	return nil
}
