package guestinfo

import (
	"context"
	"maps"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/guest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/onevm"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// Schema describes the data source.
func (d *dataSource) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	attributes := onevm.Attributes()
	maps.Copy(attributes, ownAttributes())
	resp.Schema = schema.Schema{
		MarkdownDescription: "Reads what the QEMU guest agent in a VM reports about the guest. The agent may be " +
			"missing, old or hung. That is no error: values that it doesn't report are null, with the reason in " +
			"`unavailable`. Without `wait`, the agent is asked once and has a few seconds to answer.",
		Attributes: attributes,
	}
}

// ownAttributes returns all attributes except those that select the VM.
func ownAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"raw_commands": schema.BoolAttribute{
			Optional: true,
			MarkdownDescription: "Whether to send raw guest agent commands, for `agent_version`, `agent_commands`, " +
				"`fsfreeze_status` and `counters` of interfaces. libvirt marks the VM as tainted, which has no effect. Default: " +
				"`false`.",
		},
		"probe": probeAttribute(),
		"wait": schema.StringAttribute{
			Optional: true, CustomType: value.DurationType,
			MarkdownDescription: "How long to wait for the agent of a running VM to connect: a " +
				"[time](../guides/values-and-names.md#times) such as `2m`. If the guest has no agent, each " +
				"plan takes that long. Default: no wait.",
		},
		"agent_connected": schema.BoolAttribute{
			Computed:            true,
			MarkdownDescription: "Whether the agent answered.",
		},
		"agent_version": schema.StringAttribute{
			Computed:            true,
			MarkdownDescription: "Version of the agent. Null without `raw_commands`.",
		},
		"agent_commands": schema.ListAttribute{
			Computed: true, ElementType: types.StringType,
			MarkdownDescription: "Commands that the agent supports, in alphabetical order. Null without `raw_commands`.",
		},
		"agent_supported": schema.BoolAttribute{
			Computed: true,
			MarkdownDescription: "Whether the agent supports every command that this data source needs. Without " +
				"`raw_commands`: `false` if a command was refused, otherwise null.",
		},
		"missing_commands": schema.ListAttribute{
			Computed: true, ElementType: types.StringType,
			MarkdownDescription: "Commands that this data source needs and the agent doesn't support. Null if unknown.",
		},
		"hostname":    value.ReportedString("Hostname of the guest."),
		"os":          OSAttribute(),
		"timezone":    timezoneAttribute(),
		"users":       usersAttribute(),
		"filesystems": filesystemsAttribute(),
		"disks":       disksAttribute(),
		"interfaces":  interfacesAttribute(),
		"load":        loadAttribute(),
		"vcpus":       vcpusAttribute(),
		"fsfreeze_status": value.ReportedString("`thawed`, or `frozen` while a backup is taken. Null without " +
			"`raw_commands`."),
		"probe_result": probeResultAttribute(),
		"unavailable": schema.MapAttribute{
			Computed: true, ElementType: types.StringType,
			MarkdownDescription: "Why values are null, by attribute, or `" + string(guest.GroupAgent) + "`, `" +
				string(guest.GroupCounters) + "`, `" + string(guest.GroupFSFreeze) + "`, `" + string(guest.GroupProbe) +
				"`, `" + string(guest.DiskBus) + "`. Each begins with " + reasonsText() + ".",
		},
	}
}

func reasonsText() string {
	var all []string
	for _, why := range guest.Reasons() {
		all = append(all, "`"+string(why)+"`")
	}
	return strings.Join(all, ", ")
}
