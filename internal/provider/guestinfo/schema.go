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
func (d *DataSource) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	attributes := onevm.Attributes()
	maps.Copy(attributes, ownAttributes())
	resp.Schema = schema.Schema{
		MarkdownDescription: "Reads what the QEMU guest agent in a VM reports about the guest. The agent is a program " +
			"of the guest: it may be missing, old or hung. What it doesn't report is null, with the reason in " +
			"`unavailable`. That is never an error. Without `wait`, the agent is asked once and has a few seconds to answer.",
		Attributes: attributes,
	}
}

// ownAttributes are all but those that select the VM.
func ownAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"raw_commands": schema.BoolAttribute{
			Optional: true,
			MarkdownDescription: "Whether to send the agent commands of its own protocol, which `agent_version`, " +
				"`agent_commands`, `fsfreeze_status` and the interfaces' `counters` need. libvirt marks the VM " +
				"as tainted by it. Default: `false`.",
		},
		"probe": probeAttribute(),
		"wait": schema.StringAttribute{
			Optional: true, CustomType: value.DurationType,
			MarkdownDescription: "How long to wait for the agent of a running VM to connect: " +
				value.DurationSyntax + ". Not set: no wait.",
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
			MarkdownDescription: "Commands that the agent runs, in order. Null without `raw_commands`.",
		},
		"agent_supported": schema.BoolAttribute{
			Computed: true,
			MarkdownDescription: "Whether the agent runs every command that is needed to know a guest. Null if unknown: " +
				"without `raw_commands`, only a command that was refused is known.",
		},
		"missing_commands": schema.ListAttribute{
			Computed: true, ElementType: types.StringType,
			MarkdownDescription: "Commands that are needed and that the agent doesn't run. Null like `agent_supported`.",
		},
		"hostname":        text("Hostname of the guest."),
		"os":              OSAttribute(),
		"timezone":        timezoneAttribute(),
		"users":           usersAttribute(),
		"filesystems":     filesystemsAttribute(),
		"disks":           disksAttribute(),
		"interfaces":      interfacesAttribute(),
		"load":            loadAttribute(),
		"vcpus":           vcpusAttribute(),
		"fsfreeze_status": text("`thawed`, or `frozen` while a backup is taken. Null without `raw_commands`."),
		"probe_result":    probeResultAttribute(),
		"unavailable": schema.MapAttribute{
			Computed: true, ElementType: types.StringType,
			MarkdownDescription: "Why something isn't known, by group: one of " + groupNames() + ". The reason begins with " +
				"what a program can compare: " + reasons() + ".",
		},
	}
}

func groupNames() string {
	var all []string
	for _, g := range append(guest.Groups(), guest.GroupProbe) {
		all = append(all, "`"+string(g)+"`")
	}
	return strings.Join(all, ", ")
}

func reasons() string {
	var all []string
	for _, why := range guest.Reasons() {
		all = append(all, "`"+string(why)+"`")
	}
	return strings.Join(all, ", ")
}
