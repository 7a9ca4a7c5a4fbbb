package provider

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
)

// Open creates a fleet from a provider block that doesn't come from Terraform: a JSON object, which may omit attributes
// that aren't set. The same code validates and reads it. Warnings and the fleet's log go to the logger. The caller
// closes the fleet, perhaps after months: a host that refuses the credentials is tried again and again.
func Open(ctx context.Context, block []byte, logger *slog.Logger) (*fleet.Fleet, error) {
	p := New("")
	p.logger, p.endless = logger, true
	server := p.Server()
	config := &tfprotov6.DynamicValue{JSON: block}
	if err := p.checkShape(ctx, config); err != nil {
		return nil, err
	}
	valid, err := server.ValidateProviderConfig(ctx, &tfprotov6.ValidateProviderConfigRequest{Config: config})
	if err == nil {
		err = problems(ctx, valid.Diagnostics, logger)
	}
	if err != nil {
		return nil, err
	}
	configured, err := server.ConfigureProvider(ctx, &tfprotov6.ConfigureProviderRequest{Config: config})
	if err == nil {
		err = problems(ctx, configured.Diagnostics, logger)
	}
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p.data().Fleet, nil
}

// checkShape refuses a block with attributes or types that the schema doesn't have. Terraform refuses them before it
// asks the provider, so the framework takes one for a bug of Terraform.
func (p *Provider) checkShape(ctx context.Context, config *tfprotov6.DynamicValue) error {
	var described provider.SchemaResponse
	p.Schema(ctx, provider.SchemaRequest{}, &described)
	_, err := config.Unmarshal(described.Schema.Type().TerraformType(ctx))
	var at tftypes.AttributePathError
	if !errors.As(err, &at) {
		return err
	}
	var path []string
	for _, step := range at.Path.Steps() {
		path = append(path, fmt.Sprint(step))
	}
	// The message about another type may quote the value, which may be a password.
	if strings.HasPrefix(at.Unwrap().Error(), "unsupported attribute") {
		return fmt.Errorf("%s: the provider block has no such attribute", strings.Join(path, "."))
	}
	return fmt.Errorf("%s: the value has another type than in the provider block", strings.Join(path, "."))
}

// problems returns the errors among the diagnostics as one error, and logs the rest.
func problems(ctx context.Context, diags []*tfprotov6.Diagnostic, logger *slog.Logger) error {
	var errs []error
	for _, d := range diags {
		text := d.Summary
		if d.Detail != "" {
			text += ": " + d.Detail
		}
		if d.Severity == tfprotov6.DiagnosticSeverityError {
			errs = append(errs, fmt.Errorf("%s", text))
		} else {
			logger.WarnContext(ctx, text)
		}
	}
	return errors.Join(errs...)
}
