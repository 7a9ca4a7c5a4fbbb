package evictionpolicy

import (
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/eviction"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/fleetpolicy"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/moving"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

var policySchema = schema.Schema{
	MarkdownDescription: "Says how virtual machines leave a host that is emptied. A policy is kept by libvirt on every " +
		"host of the fleet and looked at whenever a host is emptied, so that it covers every machine that it selects, " +
		"whoever made it. A machine's own `eviction_strategy` wins over policies; among policies the one with the most " +
		"matching labels wins, of those one that selects by name, then one that selects by host, then the smallest name. " +
		"Machines that no policy selects follow the provider's `default_eviction_strategy`.",
	Attributes: fleetpolicy.Attributes(map[string]schema.Attribute{
		"strategy": schema.StringAttribute{
			MarkdownDescription: "What happens to the machines: one of " + value.OneOf(eviction.Strategies) + ". `None`: the " +
				"guest is shut down. `LiveMigrate`: moved while it runs; one that can't be holds up the drain. " +
				"`LiveMigrateIfPossible`: moved while it runs; one that can't be is shut down. `External`: marked, " +
				"then awaited until somebody else has moved it. `fallback` says otherwise about those that can't be moved.",
			Required:   true,
			Validators: []validator.String{stringvalidator.OneOf(eviction.Strategies...)},
		},
		"fallback": schema.StringAttribute{
			MarkdownDescription: "What happens to a machine that can't be moved while it runs: one of " +
				value.OneOf(eviction.Fallbacks) + ". `Block` holds up the drain, `ColdMigrate` shuts it down and starts it on " +
				"another host, `Shutdown` shuts it down, `Save` saves its memory on the host. Omitted: `Block` for " +
				"`LiveMigrate`, `Shutdown` for `LiveMigrateIfPossible`. A machine that only has no room anywhere else always " +
				"holds up the drain.",
			Optional:   true,
			Validators: []validator.String{stringvalidator.OneOf(eviction.Fallbacks...)},
		},
		"on_cancel": schema.StringAttribute{
			MarkdownDescription: "What becomes of an eviction that has begun when the apply which empties the host is " +
				"cancelled (Ctrl-C, once), or stops because its `steps` no longer hold: one of " +
				value.OneOf(eviction.OnCancels) + ". `abort`: a move is broken off, and the machine runs on where it was. " +
				"`finish`: what has begun comes to its end, be that a move, live or cold, a shutdown or a save, within the " +
				"timeouts that hold for it in any case: those of the migration, of this policy and of the " +
				"`virtfleet_host_maintenance`. Nothing new begins either way. Default: `abort`.",
			Optional:   true,
			Validators: []validator.String{stringvalidator.OneOf(eviction.OnCancels...)},
		},
		moving.Name: moving.OfResource("How the machines are moved. What isn't set here is taken from the " +
			"`virtfleet_migration_policy` that holds for the machine, then from the provider's block."),
		"priority": schema.Int64Attribute{
			MarkdownDescription: "Which machines leave first: those of the highest priority. Default: `0`.",
			Optional:            true,
		},
		"timeout": schema.StringAttribute{
			MarkdownDescription: "How long the eviction of one machine may take. Omitted: as long as the drain.",
			CustomType:          value.DurationType,
			Optional:            true,
			Validators:          []validator.String{value.PositiveDuration()},
		},
	}),
}
