package migrationpolicy

import (
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/fleetpolicy"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/migrationoptions"
)

// model is the resource in Terraform.
type model struct {
	fleetpolicy.Common

	MigrationOptions types.Object `tfsdk:"migration_options"`
}

// Known reports whether the state has more than an id.
func (m *model) Known() bool { return !m.MigrationOptions.IsNull() }

// Validate checks everything that can be checked without a host.
func (m *model) Validate() diag.Diagnostics {
	at := path.Root(migrationoptions.Name)
	diags := migrationoptions.Validate(m.MigrationOptions, at)
	for _, a := range m.MigrationOptions.Attributes() {
		if !a.IsNull() {
			return diags
		}
	}
	if !m.MigrationOptions.IsUnknown() {
		diags.AddAttributeError(at, "Invalid "+noun, "It sets no option. Set at least "+
			"one attribute of "+migrationoptions.Name+".")
	}
	return diags
}

// ToFleet returns the policy with that id.
func (m *model) ToFleet(id string) migration.Policy {
	return migration.Policy{Identity: m.Identity(id), Options: migrationoptions.Options(m.MigrationOptions)}
}

// FromFleet sets the model to the policy on a host.
func (m *model) FromFleet(p migration.Policy) {
	m.MigrationOptions = migrationoptions.FromOptions(p.Options)
}
