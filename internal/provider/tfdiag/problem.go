package tfdiag

import (
	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/attrpath"
)

// Problems returns what prevents a plan from working as errors at the attributes concerned, and what may prevent it as
// warnings. The names in maps are the root attributes whose second step is a map key ("disks.root.volume").
func Problems(problems []fleet.Problem, maps ...string) diag.Diagnostics {
	var diags diag.Diagnostics
	for _, p := range problems {
		detail := asSentence(p.Detail)
		if remedy := advice(p.Remedy, p.Next, p.Existing); remedy != "" {
			detail += "\n\n" + asSentence(remedy)
		}
		p.Summary, detail = printable(p.Summary), printable(detail)
		if p.Warning {
			diags.AddWarning(p.Summary, detail)
			continue
		}
		if p.Attribute == "" {
			diags.AddError(p.Summary, detail)
			continue
		}
		diags.Append(attrpath.Error(attrpath.Parse(p.Attribute, maps...), p.Summary, detail))
	}
	return diags
}
