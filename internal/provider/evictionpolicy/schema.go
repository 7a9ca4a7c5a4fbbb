package evictionpolicy

import (
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/fleetpolicy"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/migrationoptions"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

var policySchema = schema.Schema{
	MarkdownDescription: "Sets how VMs leave a host that is drained. The policy is stored in libvirt on every host of " +
		"the fleet, so it applies to every VM that it selects, and without `selector.labels` also to VMs that Terraform " +
		"doesn't manage. If the VM sets `eviction_strategy`, only the policy's `strategy` is ignored; `fallback`, " +
		"`on_cancel`, `migration_options`, `priority` and `timeout` still apply. VMs that no policy selects " +
		"and that set no `eviction_strategy` follow the provider's `default_eviction_strategy` " +
		"with the fallback `Block`: only `None` shuts VMs down.\n\n" +
		fleetpolicy.Precedence,
	Attributes: fleetpolicy.Attributes(map[string]schema.Attribute{
		"strategy": schema.StringAttribute{
			MarkdownDescription: "What happens to the VMs. `None`: they are shut down. `LiveMigrate`, " +
				"`LiveMigrateIfPossible`: they are migrated live, with different defaults of `fallback`. `External`: another " +
				"tool moves them. See [Eviction strategies](../guides/eviction-strategies.md).",
			Required:   true,
			Validators: []validator.String{value.Among(evacuation.Strategies...)},
		},
		"fallback": schema.StringAttribute{
			MarkdownDescription: "What happens to VMs that can't migrate live. One of " + value.OneOf(evacuation.Fallbacks) +
				": see [The fallback](../guides/eviction-strategies.md#the-fallback). Not with `None` or `External`. Default: " +
				"`Shutdown` if the strategy that applies is `LiveMigrateIfPossible`, otherwise `Block`.",
			Optional:   true,
			Validators: []validator.String{value.Among(evacuation.Fallbacks...)},
		},
		"on_cancel": schema.StringAttribute{
			MarkdownDescription: "What happens to a step in progress when the drain [is " +
				"cancelled](../guides/when-a-drain-stops.md#ctrl-c) or stops. `abort`: a move is aborted, and the VM stays on " +
				"the source. `finish`: the step is completed. Default: `abort`.",
			Optional:   true,
			Validators: []validator.String{value.Among(evacuation.OnCancels...)},
		},
		migrationoptions.Name: migrationoptions.OfResource("How the VMs are moved. What isn't set comes from the VM's " +
			"`virtfleet_migration_policy`, then from the provider's block."),
		"priority": schema.Int64Attribute{
			MarkdownDescription: "VMs with the highest priority leave first. It is the order in which the steps begin, not a " +
				"condition: a VM whose move fails doesn't keep those of a lower priority on the host. Default: `0`.",
			Optional: true,
		},
		"timeout": schema.StringAttribute{
			MarkdownDescription: "How long the eviction of one VM may take. After that, the step of this VM fails; the " +
				"drain continues with the others, and the apply fails at the end. Default: the time that is left for the drain.",
			CustomType: value.DurationType,
			Optional:   true,
			Validators: []validator.String{value.PositiveDuration()},
		},
	}),
}
