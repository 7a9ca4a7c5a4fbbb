package migration

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/moving"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// attributes are one level of the schema.
type attributes = map[string]schema.Attribute

// Schema describes the resource.
func (r *Resource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "One move of a virtual machine to another host, live if it runs: KubeVirt's " +
			"VirtualMachineInstanceMigration. Creating the resource moves the machine, once; what is in the way fails the " +
			"plan. Afterwards it says how that went, whatever becomes of the machine. Destroying it doesn't move the " +
			"machine back; a migration that still runs is aborted.\n\n" +
			"A machine whose own resource sets `host` is pinned there and isn't moved elsewhere by this resource: that is a " +
			"warning in the plan, which may change the pin, and an error when it is applied. Move it by changing its " +
			"`host`.\n\n" +
			"A migration that fails is an error and leaves the machine where it was; the next apply tries again. One that " +
			"was interrupted by a kill is found by its id in the machine's metadata and is adopted, not repeated.\n\n" +
			"A migration can be imported as long as its record is among the machine's last five. `migration_options`, " +
			"`timeouts` and, where there are `triggers`, these and `target_host` aren't recorded: the next apply takes them " +
			"over from the configuration, and moves nothing if the `id` follows from it.",
		Attributes: attributes{
			"virtual_machine_id": schema.StringAttribute{
				Required: true,
				MarkdownDescription: "Id (UUID) of the virtual machine, on whichever host of the fleet it is. Another machine " +
					"is another migration.",
				Validators: []validator.String{value.VirtualMachineID()},
			},
			"target_host": schema.StringAttribute{
				Optional: true,
				MarkdownDescription: "Host to move to, a key of the provider's `hosts`. Not set: the best candidate, chosen when " +
					"the migration is applied (see `virtfleet_migration_candidates`). A change is a new migration.",
				Validators: []validator.String{stringvalidator.LengthAtLeast(1)},
			},
			"triggers": schema.MapAttribute{
				Optional: true, ElementType: types.StringType,
				MarkdownDescription: "Any values. A change is a new migration.",
			},
			moving.Name: moving.OfResource("How the machine is moved. What isn't set here is taken from the " +
				"`virtfleet_migration_policy` that holds for the machine, then from the provider's block. A change counts for " +
				"the next migration."),
			"timeouts": value.Timeouts(ctx, timeouts.Opts{
				Create: true, Read: true, Delete: true,
				CreateDescription: "For the migration, waiting for its turn included. It is aborted then. Default: `1h`.",
				ReadDescription:   "For reading. Default: `2m`.",
				DeleteDescription: "For aborting a migration that still runs, and forgetting it. Default: `5m`.",
			}),
			"id": schema.StringAttribute{
				Computed:            true,
				MarkdownDescription: "Hash of machine, target and triggers, by which the migration is known again.",
			},
			"phase": schema.StringAttribute{
				Computed: true,
				MarkdownDescription: "Phase of the migration, as KubeVirt names it: `Succeeded` or `Failed` when it is over, " +
					"`Running` while a migration that was left alone goes on.",
			},
			moving.State: moving.StateOfResource("How the migration went. What nobody reported is null."),
		},
	}
}
