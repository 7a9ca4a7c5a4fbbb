package conditions

import (
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
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

// Attribute is the attribute with all conditions by type.
func Attribute() schema.MapNestedAttribute {
	return schema.MapNestedAttribute{
		Computed: true,
		MarkdownDescription: "The conditions by type: `" + strings.Join(status.Types(), "`, `") + "`. Each is always " +
			"there; one that nobody could tell is `Unknown`.",
		NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
			"type":   text("Type of the condition, which is also its key."),
			"status": text("`True`, `False` or `Unknown`."),
			"reason": text("Why, in one word for programs. Where KubeVirt has the condition, it has KubeVirt's reasons."),
			"message": text("Why, for people. Where several things are the reason, such as all blockers, it names them " +
				"all."),
			"last_transition_time": text("When the status became what it is (RFC 3339); null when nobody knows. Reading " +
				"writes nothing, so only what a job, a record of ours or QEMU's log knows has a time: a migration, a save or " +
				"dump under way, a request to leave a host, a creation that isn't finished, what a migration left behind; when " +
				"QEMU was started on its host, or ended there."),
			"layer": text("Where it was read from: `connection` (does the host answer), `fleet` (what several hosts say), " +
				"`metadata` (our record in the domain), `libvirt`, `qemu` or `guest-agent`."),
		}},
	}
}

// FromFacts maps all conditions, by type.
func FromFacts(f status.Facts) map[string]Condition {
	all := make(map[string]Condition)
	for _, c := range status.Conditions(f) {
		all[c.Type] = Condition{
			Type: c.Type, Status: string(c.Status), Reason: orNull(c.Reason), Message: orNull(c.Message),
			LastTransitionTime: timeOrNull(c.Since), Layer: orNull(string(c.Layer)),
		}
	}
	return all
}

// orNull is nil for "".
func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// timeOrNull is nil for the zero time.
func timeOrNull(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	return orNull(t.UTC().Format(time.RFC3339))
}
