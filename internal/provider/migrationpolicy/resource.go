package migrationpolicy

import (
	"github.com/hashicorp/terraform-plugin-framework/resource"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/fleetpolicy"
)

// TypeName is the resource's full name.
const TypeName = "virtfleet_migration_policy"

// noun is the resource's name in errors.
const noun = "migration policy"

// NewResource is the constructor that the provider registers.
func NewResource() resource.Resource {
	return fleetpolicy.New(fleetpolicy.Kind[migration.Policy]{
		TypeName: TypeName, Noun: noun, Schema: policySchema, In: (*fleet.Fleet).MigrationPolicies,
		NewModel: func() fleetpolicy.Model[migration.Policy] { return &model{} },
	})
}
