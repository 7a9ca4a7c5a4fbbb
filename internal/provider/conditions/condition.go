package conditions

import (
	"fmt"
	"slices"
	"strings"

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

// meanings say when a condition is True.
var meanings = map[string]string{
	status.Connected:                "the host answers and has the VM",
	status.Defined:                  "the host keeps its definition",
	status.Started:                  "it runs or is paused",
	status.Ready:                    "the guest executes",
	status.AgentConnected:           "the guest agent answers",
	status.DataVolumesReady:         "the host can open every disk",
	status.LiveMigratable:           "it can be moved while it runs",
	status.StorageLiveMigratable:    "it can be moved while it runs if its disks are copied",
	status.Provisioning:             "its creation isn't complete",
	status.PausedCondition:          "it is paused",
	status.AgentVersionNotSupported: "the agent lacks commands",
	status.RestartRequired:          "changes wait for a restart",
	status.HotVCPUChange:            "its CPUs differ from the definition, and need no restart",
	status.HotMemoryChange:          "its memory differs from the definition, and needs no restart",
	status.StaleDefinition:          "another host has an old definition",
	status.TwoCopies:                "it runs on several hosts",
	status.MigrationRequired:        "its `host` is another one",
	status.EvictionRequested:        "a drain asked it to leave its host",
	status.Irrecoverable:            "a migration failed in post-copy",
}

// good are the conditions that are True for a VM that works.
var good = []string{
	status.Connected, status.Defined, status.Started, status.Ready, status.AgentConnected, status.DataVolumesReady,
	status.LiveMigratable, status.StorageLiveMigratable,
}

// described says what each condition means, beginning with those that are True for a VM that works.
func described() string {
	var yes, no []string
	for _, name := range status.Types() {
		line := fmt.Sprintf("`%s` (%s)", name, meanings[name])
		if slices.Contains(good, name) {
			yes = append(yes, line)
		} else {
			no = append(no, line)
		}
	}
	return "These are `True` if the VM works: " + strings.Join(yes, ", ") + ". These are `False`: " +
		strings.Join(no, ", ") + "."
}

// Attribute returns the attribute with all conditions by type.
func Attribute() schema.MapNestedAttribute {
	return schema.MapNestedAttribute{
		Computed: true,
		MarkdownDescription: "Conditions by type. Every condition is always present. If no layer reports it, its status is " +
			"`Unknown`. " + described(),
		NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
			"type":   value.ReportedString("Type of the condition, which is also its key."),
			"status": value.ReportedString("`True`, `False` or `Unknown`."),
			"reason": value.ReportedString("Reason as one word. The guide [Condition " +
				"reasons](../guides/condition-reasons.md) explains each."),
			"message": value.ReportedString("Reason in a sentence. If there are several, such as all blockers, it " +
				"names all of them."),
			"last_transition_time": value.ReportedString(
				"When the status changed (RFC 3339). Null if unknown. It is known for a migration, save or dump in " +
					"progress, a request to leave a host, an unfinished creation, a stale definition that a migration " +
					"left, and a start or end of QEMU."),
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
