package migrationpolicy

import (
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/fleetpolicy"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/migrationoptions"
)

var policySchema = schema.Schema{
	MarkdownDescription: "Sets how VMs are moved by a change of `host`, a `virtfleet_migration` or a drain, like " +
		"KubeVirt's MigrationPolicy. The policy is stored in libvirt on every host of the fleet, so it applies to " +
		"every VM that it selects, even if Terraform doesn't manage the VM. A migration in progress keeps the options " +
		"that it started with.\n\nOnly one policy applies to a VM: the one with the most matching labels. Of several " +
		"with equally many, a policy that selects by name comes first, then one that selects by host, then the first " +
		"name in alphabetical order. For the options that take precedence over the policy, see [Migration " +
		"options](../guides/migration-options.md). A policy that sets `allow_post_copy` and not " +
		"`allow_workload_disruption` sets both to the same value.",
	Attributes: fleetpolicy.Attributes(map[string]schema.Attribute{
		migrationoptions.Name: migrationoptions.RequiredOfResource(
			"How the VMs are moved; at least one attribute. What isn't set here is " +
				"taken from the provider's block."),
	}),
}
