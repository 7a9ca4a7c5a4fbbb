package migrationoptions

import (
	datasource "github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	resource "github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
)

// Effective is the name of the block with the effective options, and PolicyName that of the attribute with the policy
// that some of them come from. KubeVirt uses both names.
const (
	Effective  = "migration_configuration"
	PolicyName = "migration_policy_name"
)

// PolicyDescription describes PolicyName.
const PolicyDescription = "Name of the `virtfleet_migration_policy` that applies to the VM. Null: none."

// effectiveOfResource returns the block Effective in a resource, where it is computed.
func effectiveOfResource(description string) resource.Attribute {
	return resource.SingleNestedAttribute{
		MarkdownDescription: description, Attributes: computed, CustomType: Type, Computed: true,
	}
}

// EffectiveOfDataSource returns the block Effective in a data source.
func EffectiveOfDataSource(description string) datasource.Attribute {
	return datasource.SingleNestedAttribute{
		MarkdownDescription: description, Attributes: toDataSource(computed), CustomType: Type, Computed: true,
	}
}

// FromEffective returns the effective options as the block Effective.
func FromEffective(o migration.Options) types.Object {
	if o.Bandwidth != nil && *o.Bandwidth == 0 {
		o.Bandwidth = nil // The block can't express "no limit".
	}
	return FromOptions(o)
}

// computed are the block's attributes where they are computed.
var computed = func() map[string]resource.Attribute {
	all := make(map[string]resource.Attribute, len(Attributes))
	for name, a := range Attributes {
		const description = "Value of this [option](../guides/migration-options.md)."
		switch a := a.(type) {
		case resource.BoolAttribute:
			all[name] = resource.BoolAttribute{MarkdownDescription: description, Computed: true}
		case resource.Int64Attribute:
			all[name] = resource.Int64Attribute{MarkdownDescription: description, Computed: true}
		case resource.SetAttribute:
			all[name] = resource.SetAttribute{MarkdownDescription: description, ElementType: a.ElementType, Computed: true}
		case resource.StringAttribute:
			all[name] = resource.StringAttribute{
				MarkdownDescription: description, CustomType: a.CustomType, Computed: true,
			}
		}
	}
	return all
}()
