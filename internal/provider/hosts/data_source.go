package hosts

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/datasource"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/host"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/tfdiag"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// TypeName is the data source's full name.
const TypeName = "virtfleet_hosts"

var (
	_ datasource.DataSource                   = (*dataSource)(nil)
	_ datasource.DataSourceWithConfigure      = (*dataSource)(nil)
	_ datasource.DataSourceWithValidateConfig = (*dataSource)(nil)
)

// dataSource reads the hosts of the fleet.
type dataSource struct{ meta.DataSource }

// NewDataSource returns the data source.
func NewDataSource() datasource.DataSource {
	return &dataSource{meta.DataSource{TypeName: TypeName, Verb: "read", Noun: "hosts"}}
}

// ValidateConfig refuses node_device_capabilities without node_devices.
func (d *dataSource) ValidateConfig(
	ctx context.Context, req datasource.ValidateConfigRequest, resp *datasource.ValidateConfigResponse,
) {
	var config model
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	if !resp.Diagnostics.HasError() {
		resp.Diagnostics.Append(config.Validate()...)
	}
}

// Read asks all hosts at the same time. Unreachable hosts are listed with the reason.
func (d *dataSource) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	var config model
	failure, ok := d.Begin(ctx, &config, req, resp)
	if !ok {
		return
	}
	question := config.ToFleet()
	question.Labels = value.StringMap(config.Labels)
	all, err := d.Data.Fleet.Hosts(ctx, question)
	if err != nil {
		resp.Diagnostics.Append(failure(tfdiag.Failure{Err: err}).Error())
		return
	}
	state := model{Labels: config.Labels, Question: config.Question, Hosts: make(map[string]host.Model)}
	var names []string
	for _, status := range all {
		m, diags := host.FromStatus(ctx, status)
		resp.Diagnostics.Append(diags...)
		state.Hosts[status.Name] = m
		names = append(names, status.Name)
	}
	state.Names = value.NewStringList(append([]string{}, names...))
	resp.Diagnostics.Append(resp.State.Set(ctx, state)...)
}
