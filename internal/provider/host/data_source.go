package host

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/tfdiag"
)

// TypeName is the data source's full name.
const TypeName = "virtfleet_host"

var (
	_ datasource.DataSource                   = (*dataSource)(nil)
	_ datasource.DataSourceWithConfigure      = (*dataSource)(nil)
	_ datasource.DataSourceWithValidateConfig = (*dataSource)(nil)
)

// dataSource reads one host.
type dataSource struct{ meta.DataSource }

// NewDataSource returns the data source.
func NewDataSource() datasource.DataSource {
	return &dataSource{meta.DataSource{TypeName: TypeName, Verb: "read", Noun: "host"}}
}

// ValidateConfig refuses node_device_capabilities without node_devices.
func (d *dataSource) ValidateConfig(
	ctx context.Context, req datasource.ValidateConfigRequest, resp *datasource.ValidateConfigResponse,
) {
	var config singularModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	if !resp.Diagnostics.HasError() {
		resp.Diagnostics.Append(config.Validate()...)
	}
}

// Read asks the fleet for the host. An unreachable host is an error, unless the provider is configured to keep
// unreachable resources. A fenced host is described without being asked.
func (d *dataSource) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	var config singularModel
	failure, ok := d.Begin(ctx, &config, req, resp)
	if !ok {
		return
	}
	name := config.Name.ValueString()
	question := config.ToFleet()
	question.Name = name
	all, err := d.Data.Fleet.Hosts(ctx, question)
	if err != nil {
		resp.Diagnostics.Append(failure(tfdiag.Failure{Host: name, Err: err}).Error())
		return
	}
	if len(all) == 0 {
		resp.Diagnostics.AddAttributeError(path.Root("name"), "Unable to find host", fmt.Sprintf(
			"%q is not among the provider's hosts: %s.", name, namesText(d.Data.Fleet.HostNames())))
		return
	}
	status := all[0]
	if status.Err != nil {
		f := failure(tfdiag.Failure{
			Happened: fmt.Sprintf("host %q does not answer", name), Host: name, Err: status.Err,
		})
		if d.Data.OnUnreachable != meta.OnUnreachableKeep {
			resp.Diagnostics.Append(f.Error())
			return
		}
		resp.Diagnostics.Append(f.Warning())
	}
	model, diags := FromStatus(ctx, status)
	resp.Diagnostics.Append(diags...)
	resp.Diagnostics.Append(resp.State.Set(ctx, singularModel{
		Name: config.Name, Question: config.Question, Model: model,
	})...)
}

func namesText(all []string) string {
	quoted := make([]string, len(all))
	for i, name := range all {
		quoted[i] = strconv.Quote(name)
	}
	return strings.Join(quoted, ", ")
}
