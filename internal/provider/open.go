package provider

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
)

// Open creates a fleet from a provider block that doesn't come from Terraform: a JSON object, which may omit attributes
// that aren't set. The same code validates and reads it. Warnings and the fleet's log go to the logger. The caller
// closes the fleet.
func Open(ctx context.Context, block []byte, logger *slog.Logger) (*fleet.Fleet, error) {
	p := New("")
	p.logger = logger
	server := p.Server()
	config := &tfprotov6.DynamicValue{JSON: block}
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
