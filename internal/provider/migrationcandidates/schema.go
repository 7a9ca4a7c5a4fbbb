package migrationcandidates

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/moving"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// Schema describes the data source.
func (d *DataSource) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "Where a virtual machine could be moved: every host of the fleet, whether it fits, and " +
			"everything that is in the way. It is what the plan of a move checks, as data; nothing is changed on any host.",
		Attributes: map[string]schema.Attribute{
			"virtual_machine_id": schema.StringAttribute{
				Required:            true,
				MarkdownDescription: "Id (UUID) of the virtual machine.",
				Validators:          []validator.String{value.VirtualMachineID()},
			},
			moving.Name: moving.OfDataSource("How the machine would be moved. What isn't set here is taken from the " +
				"`virtfleet_migration_policy` that holds for the machine, then from the provider's block."),
			moving.PolicyName: schema.StringAttribute{
				Computed: true, MarkdownDescription: moving.PolicyDescription,
			},
			moving.InForce: moving.InForceOfDataSource("The options that it would be moved with, wherever they come from."),
			"raw_commands": schema.BoolAttribute{
				Optional: true,
				MarkdownDescription: "Whether to ask QEMU itself too what keeps it from migrating the machine " +
					"(`QEMUNotLiveMigratable`), as every migration does before it begins. libvirt marks the machine as tainted by " +
					"that, until it leaves its host. Default `false`.",
			},
			"current_host": schema.StringAttribute{
				Computed:            true,
				MarkdownDescription: "Host that the machine is on.",
			},
			"best": schema.StringAttribute{
				Computed:            true,
				MarkdownDescription: "Host that a migration without `target_host` would choose now; null when none fits.",
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
						MarkdownDescription: "Whether nothing is known to be in the way. `false` for the host that the machine " +
							"is on.",
					},
					"current": schema.BoolAttribute{
						Computed:            true,
						MarkdownDescription: "Whether the machine is there.",
					},
					"free_memory_bytes": schema.Int64Attribute{
						Computed: true,
						MarkdownDescription: "How much memory may still be committed to virtual machines there; null when the host " +
							"doesn't answer.",
					},
					"method": schema.StringAttribute{
						Computed: true,
						MarkdownDescription: "How it would move there: `LiveMigration`; `BlockMigration`, with disks that only its " +
							"host has (`copy_storage`); `ColdMigration` of a machine that is off. Null where it would not.",
					},
					"blockers": moving.BlockersOfDataSource("Everything that is in the way, or may be."),
				}},
			},
		},
	}
}
