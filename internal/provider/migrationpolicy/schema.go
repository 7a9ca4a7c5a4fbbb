package migrationpolicy

import (
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/fleetpolicy"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/migrationoptions"
)

var policySchema = schema.Schema{
	MarkdownDescription: "Sets how VMs are moved by a change of `host`, a `virtfleet_migration` or a drain, like " +
		"KubeVirt's MigrationPolicy. The policy is stored in libvirt on every host of the fleet, so it applies to " +
		"every VM that it selects, and without `selector.labels` also to VMs that Terraform doesn't manage. A migration " +
		"in progress keeps the options that it started with. Options of the resource that causes the move (for a drain, " +
		"the `virtfleet_eviction_policy`) take precedence over the policy: see [Migration " +
		"options](../guides/migration-options.md).\n\n" + fleetpolicy.Precedence,
	Attributes: fleetpolicy.Attributes(map[string]schema.Attribute{
		migrationoptions.Name: migrationoptions.RequiredOfResource(
			"How the VMs are moved. Set at least one attribute. An attribute that isn't set " +
				"has the value of the provider's block."),
	}),
}
