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
	MarkdownDescription: "Sets how VMs leave a host that is drained. A policy is kept by libvirt on every host of the " +
		"fleet, so it applies to every VM that it selects, even if Terraform doesn't manage the VM. A VM's own " +
		"`eviction_strategy` wins over policies. Of several policies, the one with the most matching labels wins, then " +
		"one that selects by name, then one that selects by host, then the first name in alphabetical order. VMs that no " +
		"policy selects follow the provider's `default_eviction_strategy`.",
	Attributes: fleetpolicy.Attributes(map[string]schema.Attribute{
		"strategy": schema.StringAttribute{
			MarkdownDescription: "What happens to the VMs. One of " + value.OneOf(eviction.Strategies) + ". `None`: the " +
				"guest is shut down. `LiveMigrate`: migrated live; a VM that can't be blocks the drain. " +
				"`LiveMigrateIfPossible`: migrated live; a VM that can't be is shut down. `External`: marked; the drain waits " +
				"until another tool has moved the VM. `fallback` changes what happens to VMs that can't migrate live.",
			Required:   true,
			Validators: []validator.String{stringvalidator.OneOf(eviction.Strategies...)},
		},
		"fallback": schema.StringAttribute{
			MarkdownDescription: "What happens to a VM that can't migrate live. One of " + value.OneOf(eviction.Fallbacks) +
				". `Block` blocks the drain, `ColdMigrate` shuts the VM down and starts it on another host, `Shutdown` shuts " +
				"it down, `Save` saves its memory on the host. A VM that only lacks room elsewhere always blocks the drain. " +
				"Default: `Block` for `LiveMigrate`, `Shutdown` for `LiveMigrateIfPossible`.",
			Optional:   true,
			Validators: []validator.String{stringvalidator.OneOf(eviction.Fallbacks...)},
		},
		"on_cancel": schema.StringAttribute{
			MarkdownDescription: "What happens to a step in progress when the apply that drains the host is cancelled " +
				"(Ctrl-C, once), or stops because its `steps` no longer hold. One of " + value.OneOf(eviction.OnCancels) + ". " +
				"`abort`: a move is aborted, and the VM continues on the source. `finish`: the step (live or cold move, " +
				"shutdown, save) is completed, within the timeouts of the migration, of this policy and of the " +
				"`virtfleet_host_maintenance`. No further step begins in either case. Default: `abort`.",
			Optional:   true,
			Validators: []validator.String{stringvalidator.OneOf(eviction.OnCancels...)},
		},
		moving.Name: moving.OfResource("How the VMs are moved. What isn't set here is taken from the " +
			"`virtfleet_migration_policy` that applies to the VM, then from the provider's block."),
		"priority": schema.Int64Attribute{
			MarkdownDescription: "VMs with the highest priority leave first. Default: `0`.",
			Optional:            true,
		},
		"timeout": schema.StringAttribute{
			MarkdownDescription: "How long the eviction of one VM may take. Default: as long as the drain.",
			CustomType:          value.DurationType,
			Optional:            true,
			Validators:          []validator.String{value.PositiveDuration()},
		},
	}),
}
