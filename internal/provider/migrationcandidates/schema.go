package migrationcandidates

import (
	"context"
	"maps"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/migrationoptions"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/onevm"
)

// Schema describes the data source.
func (d *dataSource) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	attributes := onevm.Attributes()
	maps.Copy(attributes, ownAttributes())
	resp.Schema = schema.Schema{
		MarkdownDescription: "Shows for every host of the fleet whether a VM can be moved there, and lists all " +
			"blockers if not. The plan of a move makes the same checks, with more options: the VM's own `migration_options` " +
			"don't count here. To add them, set `migration_options` of this data source.\n\nReading changes nothing on a " +
			"host or in the guest. With `raw_commands`, libvirt marks the VM as tainted.",
		Attributes: attributes,
	}
}

// ownAttributes returns all attributes except those that select the VM.
func ownAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		migrationoptions.Name: migrationoptions.OfDataSource(
			"Options for moving the VM. What isn't set comes from the VM's `virtfleet_migration_policy`, then from the " +
				"provider's block."),
		migrationoptions.PolicyName: schema.StringAttribute{
			Computed: true, MarkdownDescription: migrationoptions.PolicyDescription,
		},
		migrationoptions.Effective: migrationoptions.EffectiveOfDataSource(
			"Options for moving the VM, after all policies and defaults."),
		"raw_commands": schema.BoolAttribute{
			Optional: true,
			MarkdownDescription: "Whether to also ask QEMU what prevents migrating the VM (`QEMUNotLiveMigratable`), as every " +
				"migration does. libvirt marks the VM as tainted, which has no effect. Default: `false`.",
		},
		"current_host": schema.StringAttribute{
			Computed:            true,
			MarkdownDescription: "Host that the VM is on.",
		},
		"best": schema.StringAttribute{
			Computed:            true,
			MarkdownDescription: "Host that a migration without `target_host` would choose now. Null if none fits.",
		},
		"fitting": schema.ListAttribute{
			Computed: true, ElementType: types.StringType,
			MarkdownDescription: "Hosts that fit, the best first.",
		},
		"hosts": schema.MapNestedAttribute{
			Computed:            true,
			MarkdownDescription: "All hosts by name.",
			NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
				"fits": schema.BoolAttribute{
					Computed: true,
					MarkdownDescription: "Whether no blocker has the status `False`: one with `Unknown` doesn't count. `false` for " +
						"the host that the VM is on.",
				},
				"current": schema.BoolAttribute{
					Computed:            true,
					MarkdownDescription: "Whether the VM is on this host.",
				},
				"free_memory_bytes": schema.Int64Attribute{
					Computed: true,
					MarkdownDescription: "Memory that can still be committed to VMs on the host. Null if the host " +
						"doesn't answer.",
				},
				"method": schema.StringAttribute{
					Computed: true,
					MarkdownDescription: "How the VM would move to this host: `LiveMigration`; `BlockMigration`, with copies " +
						"of its disks; `ColdMigration` of a VM that is off. Null if it can't move.",
				},
				"blockers": migrationoptions.BlockersOfDataSource("What prevents the move to this host, or may prevent it."),
			}},
		},
	}
}
