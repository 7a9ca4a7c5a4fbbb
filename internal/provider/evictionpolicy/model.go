package evictionpolicy

import (
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/fleetpolicy"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/migrationoptions"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// model is the resource in Terraform.
type model struct {
	fleetpolicy.Common

	Strategy         types.String   `tfsdk:"strategy"`
	Fallback         types.String   `tfsdk:"fallback"`
	OnCancel         types.String   `tfsdk:"on_cancel"`
	MigrationOptions types.Object   `tfsdk:"migration_options"`
	Priority         types.Int64    `tfsdk:"priority"`
	Timeout          value.Duration `tfsdk:"timeout"`
}

// Known reports whether the state has more than an id.
func (m *model) Known() bool { return !m.Strategy.IsNull() }

// Validate checks everything that can be checked without a host.
func (m *model) Validate() diag.Diagnostics {
	diags := migrationoptions.Validate(m.MigrationOptions, path.Root(migrationoptions.Name))
	switch strategy := m.Strategy.ValueString(); strategy {
	case evacuation.None, evacuation.External:
		if !m.Fallback.IsNull() && !m.Fallback.IsUnknown() {
			diags.AddAttributeError(path.Root("fallback"), "Invalid "+noun, fmt.Sprintf(
				"With strategy = %q nothing is moved that a fallback could be for. Remove fallback, or choose %q or %q.",
				strategy, evacuation.LiveMigrate, evacuation.LiveMigrateIfPossible))
		}
	}
	return diags
}

// ToFleet returns the policy with that id.
func (m *model) ToFleet(id string) evacuation.Policy {
	return evacuation.Policy{
		Identity: m.Identity(id), Strategy: m.Strategy.ValueString(), Fallback: m.Fallback.ValueString(),
		OnCancel: m.OnCancel.ValueString(), Options: migrationoptions.Options(m.MigrationOptions),
		Priority: int(m.Priority.ValueInt64()), Timeout: m.Timeout.Duration(),
	}
}

// FromFleet sets the model to the policy on a host.
func (m *model) FromFleet(p evacuation.Policy) {
	m.Strategy = types.StringValue(p.Strategy)
	m.Fallback = value.NewStringOrNull(p.Fallback)
	m.OnCancel = value.NewStringOrNull(p.OnCancel)
	m.MigrationOptions = migrationoptions.FromOptions(p.Options)
	if timeout := value.NewDurationPointer(p.Timeout); !timeout.Same(m.Timeout) {
		m.Timeout = timeout
	}
	if p.Priority != 0 || m.Priority.ValueInt64() != 0 {
		m.Priority = types.Int64Value(int64(p.Priority))
		if p.Priority == 0 {
			m.Priority = types.Int64Null()
		}
	}
}
