package virtualmachines

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/datasource"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/observe"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/tfdiag"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// TypeName is the data source's full name.
const TypeName = "virtfleet_virtual_machines"

var (
	_ datasource.DataSource              = (*dataSource)(nil)
	_ datasource.DataSourceWithConfigure = (*dataSource)(nil)
)

// dataSource lists the fleet's VMs.
type dataSource struct{ meta.DataSource }

// NewDataSource returns the data source.
func NewDataSource() datasource.DataSource {
	return &dataSource{meta.DataSource{TypeName: TypeName, Verb: "read", Noun: "virtual machines"}}
}

// Read lists the VMs from one bulk read per host, which the rest of a plan shares.
func (d *dataSource) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	var config model
	failure, ok := d.Begin(ctx, &config, req, resp)
	if !ok {
		return
	}
	all, silent, err := d.Data.Fleet.List(ctx)
	if err != nil {
		resp.Diagnostics.Append(failure(tfdiag.Failure{Err: err}).Error())
		return
	}
	for _, name := range silent {
		if !config.Host.IsNull() && config.Host.ValueString() != name {
			continue // No VM of that host is wanted.
		}
		f := failure(d.missing(ctx, name))
		if d.Data.OnUnreachable == meta.OnUnreachableKeep {
			f.Remedy = "The others are listed, because on_unreachable is \"keep\"."
			resp.Diagnostics.Append(f.Warning())
		} else {
			resp.Diagnostics.Append(f.Error())
		}
	}
	if resp.Diagnostics.HasError() {
		return
	}
	state := config
	state.IDs, state.VirtualMachines = []string{}, make(map[string]virtualMachine)
	state.UnreachableHosts = append([]string{}, silent...)
	wanted := value.StringMap(config.Labels)
	for _, listed := range all {
		facts := listed.Facts()
		if !config.matches(listed, facts, wanted) {
			continue
		}
		state.IDs = append(state.IDs, listed.UUID)
		state.VirtualMachines[listed.UUID] = fromListed(listed, facts)
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, state)...)
}

// missing says that the VMs of a host aren't listed, because it doesn't answer: they aren't gone.
func (d *dataSource) missing(ctx context.Context, host string) tfdiag.Failure {
	f := tfdiag.Failure{
		Happened: fmt.Sprintf("host %q does not answer, so the virtual machines that are there are missing", host),
		Host:     host, Err: fleet.ErrUnreachable,
	}
	all, err := d.Data.Fleet.Hosts(ctx, observe.HostQuestion{Name: host})
	if err == nil && len(all) > 0 && all[0].Err != nil {
		f.Err = all[0].Err
	}
	return f
}
