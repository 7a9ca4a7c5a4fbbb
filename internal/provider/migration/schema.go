package migration

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/migrationoptions"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// attributes are one level of the schema.
type attributes = map[string]schema.Attribute

// Schema describes the resource.
func (r *Resource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "Moves a VM to another host, live if it runs, like KubeVirt's " +
			"VirtualMachineInstanceMigration. Creating the resource moves the VM once. If something blocks the move, " +
			"the plan fails. Afterwards the resource is the record of the move, even if the VM is removed. Destroying " +
			"the resource aborts a migration that still runs, and doesn't move the VM back.\n\nIf the VM's own " +
			"resource sets another `host`, the plan warns and the apply fails: change `host` instead.\n\nIf a migration " +
			"fails, the VM stays where it was, and the next apply tries again. A migration that fails [after the switch to " +
			"post-copy](../guides/when-a-migration-fails.md#after-the-switch-to-post-copy) is resumed instead, [with other " +
			"options](../guides/migration-options.md). If Terraform was killed, the next apply completes it.\n\nYou can " +
			"import a migration while its record is among the VM's last five. Set `target_host` and `triggers` as they were: " +
			"**otherwise the next apply moves the VM.** If you don't know its `triggers`, set neither.",
		Attributes: attributes{
			"virtual_machine_id": schema.StringAttribute{
				Required:            true,
				MarkdownDescription: "UUID of the VM, on any host of the fleet. A change creates a new migration.",
				Validators:          []validator.String{value.VirtualMachineID()},
			},
			"target_host": schema.StringAttribute{
				Optional: true,
				MarkdownDescription: "Host to move to, a key of the provider's `hosts`. If the VM is there, nothing is moved. A " +
					"change creates a new migration. Default: the best of the `virtfleet_migration_candidates` at the apply.",
				Validators: []validator.String{stringvalidator.LengthAtLeast(1)},
			},
			"triggers": schema.MapAttribute{
				Optional: true, ElementType: types.StringType,
				MarkdownDescription: "Any values. A change moves the VM again. With `create_before_destroy`, `-replace` moves " +
					"nothing, but a change of this does.",
			},
			migrationoptions.Name: migrationoptions.OfResource("How the VM is moved. What isn't set comes from the VM's " +
				"`virtfleet_migration_policy`, then from the provider's block. A change applies to the next migration. A " +
				"destroy, also before a replacement, resumes a broken post-copy without these."),
			"timeouts": value.Timeouts(ctx, timeouts.Opts{
				Create: true, Read: true, Delete: true,
				CreateDescription: "For the migration, including the wait for `migration_limits`. After that it is aborted, and " +
					"the VM stays where it was; in post-copy, its guest stays on the target. Default: `1h`, and " +
					"`completion_timeout_per_gib` more for each GB of the VM's memory and copied disks.",
				ReadDescription:   "For reading. Default: `2m`.",
				DeleteDescription: "For aborting a migration that still runs. Default: `5m`.",
			}),
			"id": schema.StringAttribute{
				Computed:            true,
				MarkdownDescription: "Id of the migration: a hash of VM, target and triggers.",
			},
			"phase": schema.StringAttribute{
				Computed: true,
				MarkdownDescription: "Phase of the migration, as KubeVirt names it: `Succeeded`, `Failed`, or `Running` if " +
					"the Terraform run was killed and the hosts continue the migration.",
			},
			migrationoptions.State: migrationoptions.StateOfResource("How the migration went. What wasn't reported is null."),
		},
	}
}
