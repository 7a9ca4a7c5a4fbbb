package provider

import (
	"cmp"
	"context"
	"sync"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/attrpath"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/image"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/network"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/networkdhcphost"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/networkfilter"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/onhosts"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/secret"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/storagepool"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/virtualmachine"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/volume"
)

// frameworkServer is everything that the framework's server implements in addition to the required methods.
type frameworkServer interface {
	tfprotov6.ProviderServer
	tfprotov6.ListResourceServer
	tfprotov6.ActionServer
	tfprotov6.StateStoreServer
}

var _ frameworkServer = (*server)(nil)

// server is the server that Terraform talks to: the framework, preceded by the fast path for VMs without
// changes. It has Terraform show the lines that messages of validation and of plans are about.
type server struct {
	frameworkServer
	provider *Provider
	short    virtualmachine.FastPath
}

// Server returns the server that Terraform talks to.
func (p *Provider) Server() tfprotov6.ProviderServer {
	framework := providerserver.NewProtocol6(p)()
	all, ok := framework.(frameworkServer)
	if !ok {
		return framework
	}
	return &server{frameworkServer: all, provider: p}
}

// providerSchema is the response to GetProviderSchema, the same for every server of a process. A process that serves
// one Terraform command after another, such as a test or a debugger, builds it only once.
var providerSchema struct {
	mu     sync.Mutex
	answer *tfprotov6.GetProviderSchemaResponse
}

// GetProviderSchema returns the schema that was built before, if there is one.
func (s *server) GetProviderSchema(
	ctx context.Context, req *tfprotov6.GetProviderSchemaRequest,
) (*tfprotov6.GetProviderSchemaResponse, error) {
	providerSchema.mu.Lock()
	defer providerSchema.mu.Unlock()
	if providerSchema.answer != nil {
		return providerSchema.answer, nil
	}
	answer, err := s.frameworkServer.GetProviderSchema(ctx, req)
	if err == nil && len(answer.Diagnostics) == 0 {
		providerSchema.answer = answer
	}
	return answer, err
}

// ValidateResourceConfig responds at once if there is nothing to report.
func (s *server) ValidateResourceConfig(
	ctx context.Context, req *tfprotov6.ValidateResourceConfigRequest,
) (*tfprotov6.ValidateResourceConfigResponse, error) {
	if req.TypeName == virtualmachine.TypeName && s.short.Valid(ctx, req) {
		return &tfprotov6.ValidateResourceConfigResponse{}, nil
	}
	resp, err := s.frameworkServer.ValidateResourceConfig(ctx, req)
	if err == nil {
		attrpath.Show(resp.Diagnostics)
	}
	return resp, err
}

// ValidateProviderConfig has Terraform show the lines that its messages are about.
func (s *server) ValidateProviderConfig(
	ctx context.Context, req *tfprotov6.ValidateProviderConfigRequest,
) (*tfprotov6.ValidateProviderConfigResponse, error) {
	resp, err := s.frameworkServer.ValidateProviderConfig(ctx, req)
	if err == nil {
		attrpath.Show(resp.Diagnostics)
	}
	return resp, err
}

// ValidateDataResourceConfig has Terraform show the lines that its messages are about.
func (s *server) ValidateDataResourceConfig(
	ctx context.Context, req *tfprotov6.ValidateDataResourceConfigRequest,
) (*tfprotov6.ValidateDataResourceConfigResponse, error) {
	resp, err := s.frameworkServer.ValidateDataResourceConfig(ctx, req)
	if err == nil {
		attrpath.Show(resp.Diagnostics)
	}
	return resp, err
}

// UpgradeResourceState returns the given state if this version wrote it.
func (s *server) UpgradeResourceState(
	ctx context.Context, req *tfprotov6.UpgradeResourceStateRequest,
) (*tfprotov6.UpgradeResourceStateResponse, error) {
	if req.TypeName == virtualmachine.TypeName {
		if state := s.short.Saved(s.provider.data(), req); state != nil {
			return &tfprotov6.UpgradeResourceStateResponse{UpgradedState: state}, nil
		}
	}
	switch req.TypeName {
	case volume.TypeName:
		volume.NoteSaved(s.provider.data(), req)
	case networkdhcphost.TypeName:
		networkdhcphost.NoteSaved(s.provider.data(), req)
	case image.TypeName:
		image.NoteSaved(s.provider.data(), req)
	case network.TypeName, networkfilter.TypeName, secret.TypeName, storagepool.TypeName:
		onhosts.NoteSaved(s.provider.data(), req)
	}
	return s.frameworkServer.UpgradeResourceState(ctx, req)
}

// ReadResource returns the given state if it is current.
func (s *server) ReadResource(
	ctx context.Context, req *tfprotov6.ReadResourceRequest,
) (*tfprotov6.ReadResourceResponse, error) {
	if data := s.provider.data(); data != nil {
		data.Refreshed.Store(true)
	}
	if req.TypeName == virtualmachine.TypeName {
		var unchanged bool
		if ctx, unchanged = s.short.ReadsNoChanges(ctx, s.provider.data(), req); unchanged {
			return &tfprotov6.ReadResourceResponse{
				NewState: req.CurrentState, Private: req.Private, NewIdentity: req.CurrentIdentity,
			}, nil
		}
	}
	return s.frameworkServer.ReadResource(ctx, req)
}

// PlanResourceChange plans, and refuses to destroy an object that the same plan keeps or creates for another resource,
// and to have an object on one host under two names.
func (s *server) PlanResourceChange(
	ctx context.Context, req *tfprotov6.PlanResourceChangeRequest,
) (*tfprotov6.PlanResourceChangeResponse, error) {
	refused := cmp.Or(plannedTwice(ctx, s.provider.data(), req), oneHostTwice(ctx, s.provider.data(), req))
	resp, err := s.plan(ctx, req)
	if err == nil && refused != nil {
		resp.Diagnostics = append(resp.Diagnostics, refused)
	}
	return resp, err
}

// plan returns the prior state if there is nothing to change.
func (s *server) plan(
	ctx context.Context, req *tfprotov6.PlanResourceChangeRequest,
) (*tfprotov6.PlanResourceChangeResponse, error) {
	if req.TypeName == virtualmachine.TypeName {
		if private, unchanged := s.short.PlansNoChanges(ctx, s.provider.data(), req); unchanged {
			return &tfprotov6.PlanResourceChangeResponse{
				PlannedState: req.PriorState, PlannedPrivate: private, PlannedIdentity: req.PriorIdentity,
			}, nil
		}
		req = virtualmachine.WithBareProposal(s.provider.data(), req)
	}
	resp, err := s.frameworkServer.PlanResourceChange(ctx, req)
	if err == nil {
		attrpath.Show(resp.Diagnostics)
	}
	return resp, err
}

// ApplyResourceChange counts the changes that aren't complete yet, and records that Terraform carries out a plan. It
// changes nothing that the plan was told to ignore.
func (s *server) ApplyResourceChange(
	ctx context.Context, req *tfprotov6.ApplyResourceChangeRequest,
) (*tfprotov6.ApplyResourceChangeResponse, error) {
	s.provider.changes.Add(1)
	defer s.provider.changes.Done()
	if data := s.provider.data(); data != nil {
		data.Applies.Store(true)
	}
	planned, err := s.asPlanned(ctx, req)
	if err != nil {
		return nil, err
	}
	return s.frameworkServer.ApplyResourceChange(ctx, planned)
}

// data returns what Configure passed on last, nil before that.
func (p *Provider) data() *meta.Data {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.configured
}
