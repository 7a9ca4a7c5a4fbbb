package provider

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/resource"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/conditions"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/domainstats"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/evacuationplan"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/evictionpolicy"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/guestinfo"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/host"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/hostmaintenance"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/hosts"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/image"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/migrationcandidates"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/migrationoptions"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/migrationpolicy"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/network"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/networkdhcphost"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/networkfilter"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/secret"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/storagepool"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/tfdiag"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/virtualmachine"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/virtualmachines"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/volume"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/ssh"
)

const (
	// TypeName is the prefix of all resource and data source types.
	TypeName = "virtfleet"
	// Address is the provider's address in Terraform's registry.
	Address = "registry.terraform.io/virtfleet/virtfleet"
)

var _ provider.Provider = (*Provider)(nil)

// Provider is the Terraform provider. Call Close before the process ends.
type Provider struct {
	version string
	logger  *slog.Logger // nil: Terraform's log
	endless bool         // whether it serves a program that runs for months, not Terraform

	mu         sync.Mutex
	fleets     []*fleet.Fleet
	configured *meta.Data // what Configure passed on last

	changes sync.WaitGroup // requests that may change a host
}

// New returns a provider of that version.
func New(version string) *Provider { return &Provider{version: version} }

// Close closes the connections to all hosts.
func (p *Provider) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	for _, f := range p.fleets {
		errs = append(errs, f.Close())
	}
	p.fleets = nil
	return errors.Join(errs...)
}

// Calls returns how often each libvirt procedure was called on each host, by the names of hosts and procedures.
func (p *Provider) Calls() map[string]map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	calls := map[string]map[string]int{}
	for _, f := range p.fleets {
		maps.Copy(calls, f.Calls())
	}
	return calls
}

// Metadata names the provider.
func (p *Provider) Metadata(_ context.Context, _ provider.MetadataRequest, resp *provider.MetadataResponse) {
	resp.TypeName = TypeName
	resp.Version = p.version
}

// Configure builds the fleet. It asks no host: each host is connected to when it is first needed.
func (p *Provider) Configure(ctx context.Context, req provider.ConfigureRequest, resp *provider.ConfigureResponse) {
	data := &meta.Data{OnUnreachable: meta.OnUnreachableError}
	defer p.handOver(data, resp)

	if data.UnknownAttributes = unknownPaths(req.Config.Raw); len(data.UnknownAttributes) > 0 {
		// The known part of the block may lead to the wrong host, so none of it is used.
		data.Unknown = true
		return
	}
	var m model
	resp.Diagnostics.Append(req.Config.Get(ctx, &m)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if m.OnUnreachable.ValueString() != "" {
		data.OnUnreachable = m.OnUnreachable.ValueString()
	}
	data.DefaultDomainType = m.DefaultDomainType.ValueString()
	resp.Diagnostics.Append(migrationoptions.Validate(m.MigrationOptions, path.Root(migrationoptions.Name))...)

	logger := p.logger
	if logger == nil {
		logger = newLogger(ctx)
	}
	hosts, diags := m.hosts(ssh.Config{Logger: logger, KeepTrying: p.endless})
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	f, err := fleet.New(fleet.Config{
		Hosts: hosts, DefaultDomainType: data.DefaultDomainType, Owner: owner(), Logger: logger,
		MigrationLimits:         m.MigrationLimits.toFleet(),
		DefaultEvictionStrategy: m.DefaultEvictionStrategy.ValueString(),
		Migration:               migrationoptions.Options(m.MigrationOptions),
	})
	if err != nil {
		resp.Diagnostics.Append(tfdiag.Failure{Verb: "configure", Noun: "provider", Err: err}.Error())
		return
	}
	data.Fleet = f
}

// handOver passes the data to resources and data sources, unless Configure failed, and records it for Close.
func (p *Provider) handOver(data *meta.Data, resp *provider.ConfigureResponse) {
	if resp.Diagnostics.HasError() {
		return
	}
	resp.ResourceData, resp.DataSourceData = data, data
	p.mu.Lock()
	defer p.mu.Unlock()
	p.configured = data
	if data.Fleet != nil {
		p.fleets = append(p.fleets, data.Fleet)
	}
}

// Resources returns the resource types.
func (p *Provider) Resources(context.Context) []func() resource.Resource {
	return []func() resource.Resource{
		migration.NewResource,
		migrationpolicy.NewResource,
		evictionpolicy.NewResource,
		hostmaintenance.NewResource,
		image.NewResource,
		secret.NewResource,
		storagepool.NewResource,
		network.NewResource,
		networkdhcphost.NewResource,
		networkfilter.NewResource,
		virtualmachine.NewResource,
		volume.NewResource,
	}
}

// DataSources returns the data source types.
func (p *Provider) DataSources(context.Context) []func() datasource.DataSource {
	return []func() datasource.DataSource{
		migrationcandidates.NewDataSource,
		domainstats.NewDataSource,
		conditions.NewDataSource,
		evacuationplan.NewDataSource,
		guestinfo.NewDataSource,
		host.NewDataSource,
		hosts.NewDataSource,
		virtualmachines.NewDataSource,
	}
}
