package evacuation

import (
	datasource "github.com/hashicorp/terraform-plugin-framework/datasource/schema"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/eviction"
)

// Rule is what holds for a machine if its host is to be emptied.
type Rule struct {
	Strategy string  `tfsdk:"strategy"`
	Origin   string  `tfsdk:"origin"`
	Policy   *string `tfsdk:"policy"`
	Fallback *string `tfsdk:"fallback"`
}

// RuleAttribute is the attribute of a data source that has a Rule.
func RuleAttribute() datasource.SingleNestedAttribute {
	text := func(description string) datasource.StringAttribute {
		return datasource.StringAttribute{Computed: true, MarkdownDescription: description}
	}
	return datasource.SingleNestedAttribute{
		Computed: true,
		MarkdownDescription: "What would happen to the machine if its host were emptied now, as the machine, the policies " +
			"and the provider's default say together. Null when the host can't tell its policies.",
		Attributes: map[string]datasource.Attribute{
			"strategy": text("Its effective eviction strategy: `None`, `LiveMigrate`, `LiveMigrateIfPossible` or `External`."),
			"origin":   text(descriptions["origin"]),
			"policy":   text(descriptions["policy"] + " Its fallback counts also for a machine with a strategy of its own."),
			"fallback": text("What happens to it if it can't be moved while it runs: `Block`, `ColdMigrate`, `Shutdown` or " +
				"`Save`. Null: its strategy moves nothing."),
		},
	}
}

// FromRule maps a rule; nil stays nil.
func FromRule(r *eviction.Rule) *Rule {
	if r == nil {
		return nil
	}
	rule := &Rule{Strategy: r.Strategy, Origin: r.Origin}
	if r.Policy != "" {
		rule.Policy = &r.Policy
	}
	if r.Strategy != eviction.None && r.Strategy != eviction.External {
		rule.Fallback = &r.Fallback
	}
	return rule
}
