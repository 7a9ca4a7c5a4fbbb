package conditions

import (
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// Condition is one condition in Terraform's state.
type Condition struct {
	Type               string  `tfsdk:"type"`
	Status             string  `tfsdk:"status"`
	Reason             *string `tfsdk:"reason"`
	Message            *string `tfsdk:"message"`
	LastTransitionTime *string `tfsdk:"last_transition_time"`
	Layer              *string `tfsdk:"layer"`
}

// Attribute returns the attribute with all conditions by type.
func Attribute() schema.MapNestedAttribute {
	return schema.MapNestedAttribute{
		Computed: true,
		MarkdownDescription: "Conditions by type. All are present; without a report, the status is `Unknown`. [Is my VM " +
			"alive?](../guides/is-my-vm-alive.md#the-layers) says which are `True` if the VM works.",
		NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
			"type":   value.ReportedString("Type of the condition, which is also its key."),
			"status": value.ReportedString("`True`, `False` or `Unknown`."),
			"reason": value.ReportedString("Reason as one word. The guide [Condition " +
				"reasons](../guides/condition-reasons.md) explains each."),
			"message": value.ReportedString("Reason in a sentence. If there are several, such as all blockers, it " +
				"names all of them."),
			"last_transition_time": value.ReportedString(
				"When the status changed (RFC 3339). Null if unknown. It is known only for some changes, such as a start of QEMU " +
					"and a migration in progress."),
			"layer": value.ReportedString(
				"Layer that reported the condition: `connection` (does the host answer), `fleet` (what several " +
					"hosts report), `metadata` (this provider's record in the domain), `libvirt`, `qemu` or `guest-agent`."),
		}},
	}
}

// FromFacts maps all conditions, by type.
func FromFacts(f status.Facts) map[string]Condition {
	all := make(map[string]Condition)
	for _, c := range status.Conditions(f) {
		all[c.Type] = Condition{
			Type: c.Type, Status: string(c.Status), Reason: value.TextOrNull(c.Reason), Message: value.TextOrNull(c.Message),
			LastTransitionTime: value.TimeOrNull(c.Since), Layer: value.TextOrNull(string(c.Layer)),
		}
	}
	return all
}
