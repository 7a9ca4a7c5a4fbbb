package migrationpolicy

import (
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/fleetpolicy"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/moving"
)

var policySchema = schema.Schema{
	MarkdownDescription: "Says how virtual machines are moved, whoever moves them: a change of `host`, a " +
		"`virtfleet_migration` or a host that is emptied. It is KubeVirt's MigrationPolicy. A policy is kept by libvirt on " +
		"every host of the fleet and looked at whenever a machine is about to move, so that it covers every machine that " +
		"it selects, whoever made it. A migration that has begun keeps what it began with.\n\n" +
		"One policy holds for a machine: the one with the most matching labels, of those one that selects by name, then " +
		"one that selects by host, then the smallest name. Its options win over those of the provider's block, attribute " +
		"by attribute; what is written in a virtual machine, a `virtfleet_migration` or, for a host that is emptied, a " +
		"`virtfleet_eviction_policy` wins over the policy. Setting `allow_post_copy` without `allow_workload_disruption` " +
		"sets both.",
	Attributes: fleetpolicy.Attributes(map[string]schema.Attribute{
		moving.Name: moving.RequiredOfResource("How the machines are moved; at least one attribute. What isn't set here is " +
			"taken from the provider's block."),
	}),
}
