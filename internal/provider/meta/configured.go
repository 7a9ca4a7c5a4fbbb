package meta

import (
	"context"
	"errors"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/tfdiag"
)

// DataSource is embedded in every data source: its name, and the configured provider.
type DataSource struct {
	// TypeName is the full name.
	TypeName string
	// Verb and Noun say in errors what the data source does: "read", "conditions".
	Verb, Noun string
	// Data is nil until the provider is configured.
	Data *Data
}

// Metadata names the data source.
func (d *DataSource) Metadata(
	_ context.Context, _ datasource.MetadataRequest, resp *datasource.MetadataResponse,
) {
	resp.TypeName = d.TypeName
}

// Configure sets the provider's data.
func (d *DataSource) Configure(
	_ context.Context, req datasource.ConfigureRequest, resp *datasource.ConfigureResponse,
) {
	data, diags := From(req.ProviderData)
	resp.Diagnostics.Append(diags...)
	d.Data = data
}

// Begin reads the configuration of the data source, and reports whether hosts may be asked for it. If not, resp says
// why. failure completes the Failure of a Read that began now.
func (d *DataSource) Begin(
	ctx context.Context, config any, req datasource.ReadRequest, resp *datasource.ReadResponse,
) (failure func(tfdiag.Failure) tfdiag.Failure, ok bool) {
	began := time.Now()
	resp.Diagnostics.Append(req.Config.Get(ctx, config)...)
	if !resp.Diagnostics.HasError() && d.Data.Unknown {
		resp.Diagnostics.Append(d.Data.UnknownError(d.Verb, d.Noun))
	}
	return func(f tfdiag.Failure) tfdiag.Failure {
		f.Verb, f.Noun, f.Elapsed = d.Verb, d.Noun, time.Since(began)
		return f
	}, !resp.Diagnostics.HasError()
}

// Keeps reports whether a Read continues without what a host has that didn't answer: on_unreachable is "keep".
func (d *DataSource) Keeps(err error) bool {
	return errors.Is(err, fleet.ErrUnreachable) && d.Data.OnUnreachable == OnUnreachableKeep
}

// Resource is embedded in every resource: its name, and the configured provider.
type Resource struct {
	// TypeName is the full name.
	TypeName string
	// Data is nil until the provider is configured.
	Data *Data
}

// Metadata names the resource.
func (r *Resource) Metadata(_ context.Context, _ resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = r.TypeName
}

// Configure sets the provider's data.
func (r *Resource) Configure(_ context.Context, req resource.ConfigureRequest, resp *resource.ConfigureResponse) {
	data, diags := From(req.ProviderData)
	resp.Diagnostics.Append(diags...)
	r.Data = data
}

// Asks reports whether hosts may be asked for the operation. If not, diags says why: "Unable to <verb> <noun>".
func (r *Resource) Asks(verb, noun string, diags *diag.Diagnostics) bool {
	if r.Data.Unknown {
		diags.Append(r.Data.UnknownError(verb, noun))
	}
	return !r.Data.Unknown
}

// Plans reports whether the resource has to complete the plan. It returns false if the object is destroyed. It also
// returns false if the object is new and hosts can't be asked, in which case resp may say why. noun is the name in
// errors.
func (r *Resource) Plans(noun string, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) bool {
	switch {
	case r.Data == nil, req.Plan.Raw.IsNull(), r.Data.Unknown && req.State.Raw.IsNull():
		return false
	default:
		return r.Asks("update", noun, &resp.Diagnostics)
	}
}
