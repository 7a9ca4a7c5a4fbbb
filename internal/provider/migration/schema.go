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
			"migration_state": schema.SingleNestedAttribute{
				Computed:            true,
				MarkdownDescription: "How the migration went. What nobody reported is null.",
				Attributes:          stateAttributes,
			},
		},
	}
}

var stateAttributes = attributes{
	"source_host": text("Host that the machine was on."),
	"target_host": text("Host that it was moved to."),
	"start_time":  text("When it began, in RFC 3339."),
	"end_time":    text("When it ended, or was found to have."),
	"mode": text("How memory was moved: `PreCopy`, `PostCopy`, or `Paused` where the guest was stopped for it. Null for " +
		"a machine that was off."),
	"method": text("What was moved: `LiveMigration`; `BlockMigration`, its disks too; or `ColdMigration` of a " +
		"machine that was off."),
	"transport": text("How memory got from host to host, whatever was asked for: `direct`, `tls` or `ssh_relay`; where " +
		"several were tried, the last one. Null for a machine that was off, and where it didn't come to that. Of a " +
		"migration that isn't over, what was asked for."),
	"completed":       flag("Whether it is over; see `failed` for how."),
	"failed":          flag("Whether it ended without moving the machine."),
	"failure_reason":  text("Why it failed."),
	"failure_plane":   text("What it failed at: `control` is all that prepares it, `data` the copying itself."),
	"abort_requested": flag("Whether it was to be aborted."),
	"abort_status": text("What became of that: `Succeeded`, or `Failed` where it came too late and the machine is on " +
		"the target."),
	"recovered": flag("Whether it broke on the way and was brought to its end all the same."),
	moving.PolicyName: text("Name of the `virtfleet_migration_policy` that held for the machine when it was moved. " +
		"Null: none, or nothing was moved."),
	moving.InForce: moving.InForceOfResource("The options that it was moved with, wherever they came from. Null: " +
		"nothing was moved."),
	"statistics": schema.SingleNestedAttribute{
		Computed:            true,
		MarkdownDescription: "Its last numbers. Null for a machine that was off.",
		Attributes:          statisticsAttributes,
	},
}

var statisticsAttributes = attributes{
	"elapsed_ms":             number("How long it took, in milliseconds."),
	"downtime_ms":            number("How long the guest stood still, in milliseconds."),
	"setup_ms":               number("How long it took to begin with copying, in milliseconds."),
	"total_bytes":            number("How much there was to copy, memory and disks."),
	"processed_bytes":        number("How much was copied, what the guest wrote to meanwhile more than once."),
	"remaining_bytes":        number("How much was left."),
	"disk_total_bytes":       number("How much of the disks there was to copy."),
	"disk_processed_bytes":   number("How much of the disks was copied."),
	"disk_remaining_bytes":   number("How much of the disks was left."),
	"bytes_per_second":       number("How fast memory was copied at last."),
	"dirty_bytes_per_second": number("How fast the guest wrote to its memory at last."),
	"iterations":             number("How many times its memory was gone through."),
	"auto_converge_throttle": number("By how many percent auto-converge slowed the guest down."),
	"post_copy_requests":     number("How many pages the guest had to wait for after the switch to post-copy."),
}

func text(description string) schema.Attribute {
	return schema.StringAttribute{Computed: true, MarkdownDescription: description}
}

func flag(description string) schema.Attribute {
	return schema.BoolAttribute{Computed: true, MarkdownDescription: description}
}

func number(description string) schema.Attribute {
	return schema.Int64Attribute{Computed: true, MarkdownDescription: description}
}
