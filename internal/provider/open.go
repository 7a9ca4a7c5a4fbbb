package provider

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
)

// Open makes a fleet of a provider block that doesn't come from Terraform: the block as a JSON object, in which what
// isn't set may be missing. It is checked and read by the same code. Warnings go to the logger, as does what the fleet
// has to tell. The caller closes the fleet.
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

// problems makes an error of what is wrong, and logs the rest.
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
