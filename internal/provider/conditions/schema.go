package conditions

import (
	"context"
	"maps"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/observe"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/evacuationsteps"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/guestinfo"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/migrationoptions"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/onevm"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// Schema describes the data source.
func (d *dataSource) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	attributes := onevm.Attributes()
	maps.Copy(attributes, ownAttributes())
	resp.Schema = schema.Schema{
		MarkdownDescription: "Shows whether one VM works: its phase and conditions with KubeVirt's names, what blocks " +
			"moving it, and its interfaces as the definition, the guest agent, DHCP and ARP report them. The provider " +
			"asks libvirt, QEMU and the guest agent at the same time. Each condition names the layer that reported " +
			"it. If a layer doesn't report something, it is null or `Unknown`, with the reason. If the guest agent " +
			"hangs, reading takes a few seconds longer. If the host doesn't answer, the conditions are `Unknown`, and " +
			"the plan doesn't fail.\n\nReading changes nothing on a host or in the guest. With `raw_commands`, " +
			"libvirt marks the VM as tainted.",
		Attributes: attributes,
	}
}

// ownAttributes returns all attributes except those that select the VM.
func ownAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"target_host": schema.StringAttribute{
			Optional: true,
			MarkdownDescription: "Host for which `LiveMigratable` and `blockers` are checked. Default: the host that fits " +
				"best.",
		},
		"raw_commands": schema.BoolAttribute{
			Optional: true,
			MarkdownDescription: "Whether to ask QEMU and the guest agent with raw commands, for `QEMUNotLiveMigratable` and " +
				"`AgentVersionNotSupported`. libvirt marks the VM as tainted, which has no effect. Default: `false`.",
		},
		"current_host": value.ReportedString("Host that the VM is on. Null if unknown."),
		"phase": value.ReportedString("Phase of the VM, as KubeVirt names it: `Running`, `Succeeded`, `Failed` or " +
			"`Unknown`."),
		"status": value.ReportedString("Status of the VM, as KubeVirt prints it: `Running`, `Stopped`, `Paused`, " +
			"`Migrating`, `Starting`, `Stopping`, `Unknown`; or `Failed` if it crashed, could not be started, or lost a " +
			"part of its memory in post-copy."),
		"status_reason": value.ReportedString("libvirt's reason for the status."),
		"ready": schema.BoolAttribute{
			Computed: true, MarkdownDescription: "Whether the guest runs. `ready` of the VM's resource also waits for its " +
				"`wait_for`. Null if unknown.",
		},
		"conditions": Attribute(),
		"blockers": migrationoptions.BlockersOfDataSource(
			"Everything that blocks or may block moving the VM, for `target_host` or the host that fits best; if none fits, " +
				"of all hosts together. The options are those of its `virtfleet_migration_policy` and of the provider block. " +
				"Null if unknown."),
		migrationoptions.State: migrationoptions.StateOfDataSource(
			"The migration in progress, otherwise the last recorded one: a `virtfleet_migration`, a change of `host`, or a " +
				"drain. Moves by other tools aren't recorded. Null if there is none."),
		"eviction": evacuationsteps.RuleAttribute(),
		"evacuation_host": value.ReportedString(
			"Host that the VM was asked to leave, see `EvictionRequested`. Null if there is no such " +
				"request."),
		"active_hosts": schema.MapAttribute{
			Computed: true, ElementType: types.StringType,
			MarkdownDescription: "Hosts that have a QEMU process of the VM, with its role: `active`, or `source` and " +
				"`target` during a migration.",
		},
		"interfaces":           interfacesAttribute(),
		"os":                   guestinfo.OSAttribute(),
		"current_cpu_topology": cpuAttribute(),
		"memory":               memoryAttribute(),
		"disk_errors": schema.MapAttribute{
			Computed: true, ElementType: types.StringType,
			MarkdownDescription: "Last error of each disk since the guest was started, even if it is over: `NoSpace` or " +
				"`Unspecified`. The condition `DataVolumesReady` says whether a disk has a problem now. Null if unknown.",
		},
		"qemu_log": schema.ListAttribute{
			Computed: true, ElementType: types.StringType,
			MarkdownDescription: "Last lines of QEMU's log since the VM was started, without its command line. Null unless " +
				"the host is reached over SSH, by a user who may read the file.",
		},
		"unavailable": schema.MapAttribute{
			Computed: true, ElementType: types.StringType,
			MarkdownDescription: "Why something is unknown, by source: `" + strings.Join(observe.Parts, "`, `") + "`.",
		},
	}
}
