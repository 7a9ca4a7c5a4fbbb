package migrationoptions

import (
	datasource "github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	resource "github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
)

// Effective is the name of the block that says which options count in the end, PolicyName that of the attribute that
// says from which policy some of them come. Both are KubeVirt's.
const (
	Effective  = "migration_configuration"
	PolicyName = "migration_policy_name"
)

// PolicyDescription describes PolicyName.
const PolicyDescription = "Name of the `virtfleet_migration_policy` that applies to the VM. Null: none."

// EffectiveOfResource is the block Effective in a resource, which only tells.
func EffectiveOfResource(description string) resource.Attribute {
	return resource.SingleNestedAttribute{
		MarkdownDescription: description, Attributes: computed, CustomType: Type, Computed: true,
	}
}

// EffectiveOfDataSource is the block Effective in a data source.
func EffectiveOfDataSource(description string) datasource.Attribute {
	return datasource.SingleNestedAttribute{
		MarkdownDescription: description, Attributes: toDataSource(computed), CustomType: Type, Computed: true,
	}
}

// FromEffective are the options that count in the end, as Effective has them.
func FromEffective(o migration.Options) types.Object {
	if o.Bandwidth != nil && *o.Bandwidth == 0 {
		o.Bandwidth = nil // No limit is nothing that a block could say.
	}
	return FromOptions(o)
}

// computed are the block's attributes where it only tells.
var computed = func() map[string]resource.Attribute {
	all := make(map[string]resource.Attribute, len(Attributes))
	for name, a := range Attributes {
		const description = "See `" + Name + "`."
		switch a := a.(type) {
		case resource.BoolAttribute:
			all[name] = resource.BoolAttribute{MarkdownDescription: description, Computed: true}
		case resource.Int64Attribute:
			all[name] = resource.Int64Attribute{MarkdownDescription: description, Computed: true}
		case resource.ListAttribute:
			all[name] = resource.ListAttribute{MarkdownDescription: description, ElementType: a.ElementType, Computed: true}
		case resource.StringAttribute:
			all[name] = resource.StringAttribute{
				MarkdownDescription: description, CustomType: a.CustomType, Computed: true,
			}
		}
	}
	return all
}()
