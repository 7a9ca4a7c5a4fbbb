package evacuationsteps

import (
	datasource "github.com/hashicorp/terraform-plugin-framework/datasource/schema"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// Rule is the rule that applies to a VM when its host is drained.
type Rule struct {
	Strategy   string  `tfsdk:"strategy"`
	Origin     string  `tfsdk:"origin"`
	PolicyName *string `tfsdk:"eviction_policy_name"`
	Fallback   *string `tfsdk:"fallback"`
}

// RuleAttribute returns the attribute of a data source for a Rule.
func RuleAttribute() datasource.SingleNestedAttribute {
	text := value.ReportedString
	return datasource.SingleNestedAttribute{
		Computed: true,
		MarkdownDescription: "What a drain of the host would do with the VM, from the VM's own strategy, the policies " +
			"and the provider's default. Null if the host doesn't report its policies.",
		Attributes: map[string]datasource.Attribute{
			"strategy": text("Effective eviction strategy of the VM: `None`, `LiveMigrate`, `LiveMigrateIfPossible` or " +
				"`External`."),
			"origin":   text(descriptions["origin"]),
			PolicyName: text(descriptions[PolicyName] + " Its fallback also applies to a VM with its own strategy."),
			"fallback": text("What happens if the VM can't migrate live: `Block`, `ColdMigrate`, `Shutdown` or " +
				"`Save`. Null: with this strategy, the drain doesn't move the VM."),
		},
	}
}

// FromRule maps a rule. nil stays nil.
func FromRule(r *evacuation.Rule) *Rule {
	if r == nil {
		return nil
	}
	rule := &Rule{Strategy: r.Strategy, Origin: r.Origin}
	if r.Policy != "" {
		rule.PolicyName = &r.Policy
	}
	if r.Strategy != evacuation.None && r.Strategy != evacuation.External {
		rule.Fallback = &r.Fallback
	}
	return rule
}
