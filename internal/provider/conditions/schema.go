package conditions

import (
	"context"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/guestinfo"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/moving"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// Schema describes the data source.
func (d *DataSource) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "How far one virtual machine is really alive: its phase and conditions with KubeVirt's names, " +
			"what is in the way of moving it, and what the definition, the guest agent, DHCP and ARP say of its interfaces. " +
			"All layers are asked now, at the same time, and each fact names the layer it was read from. What a layer " +
			"doesn't tell is null or `Unknown`, with the reason; a guest agent that hangs costs one question of a few " +
			"seconds. A machine whose host doesn't answer is no error, but one whose conditions are `Unknown`.\n\n" +
			"Reading it changes nothing, on any host or in the guest; only `raw_commands` leave a mark.",
		Attributes: map[string]schema.Attribute{
			"virtual_machine_id": schema.StringAttribute{
				Optional: true, Computed: true,
				MarkdownDescription: "Id (UUID) of the virtual machine, which may be on any host of the fleet. Either this or " +
					"`name` is set.",
				Validators: []validator.String{
					value.VirtualMachineID(),
					stringvalidator.ExactlyOneOf(path.MatchRoot("virtual_machine_id"), path.MatchRoot("name")),
				},
			},
			"name": schema.StringAttribute{
				Optional: true, Computed: true,
				MarkdownDescription: "Name of the virtual machine.",
			},
			"target_host": schema.StringAttribute{
				Optional: true,
				MarkdownDescription: "The host that the machine might be moved to, which `LiveMigratable` and `blockers` are " +
					"about then. Not set: the host that fits best.",
			},
			"raw_commands": schema.BoolAttribute{
				Optional: true,
				MarkdownDescription: "Whether to send the agent a command of its own protocol, without which " +
					"`AgentVersionNotSupported` may be `Unknown`, and to ask QEMU itself what keeps it from migrating the machine " +
					"(`QEMUNotLiveMigratable`). libvirt marks the virtual machine as tainted by that. Default `false`.",
			},
			"host":  text("The host that has the machine; null while that isn't known."),
			"phase": text("Phase of the machine, as KubeVirt names it: `Running`, `Succeeded`, `Failed` or `Unknown`."),
			"status": text("What the machine does, as KubeVirt prints it: `Running`, `Stopped`, `Paused`, `Migrating`, " +
				"`Stopping`, `CrashLoopBackOff` or `Unknown`."),
			"status_reason": text("Why it does that, in libvirt's words."),
			"ready": schema.BoolAttribute{
				Computed: true, MarkdownDescription: "Whether the guest runs; null while that isn't known.",
			},
			"conditions": Attribute(),
			"blockers": moving.BlockersOfDataSource("Everything that is, or may be, in the way of moving the machine, in " +
				"KubeVirt's order; of several hosts, to the one that fits best, or to each when none fits. Null when nobody " +
				"could tell."),
			moving.State: moving.StateOfDataSource("The migration that is under way, as its job at the source says, else the " +
				"last one that is recorded: a record says how a `virtfleet_migration`, a change of `host` or a drain ended, " +
				"not what others moved. Null where there was none. What nobody reported is null."),
			"eviction": evacuation.RuleAttribute(),
			"evacuation_host": text("The host that the machine was asked to leave, see `EvictionRequested`; null while " +
				"nobody asks."),
			"active_hosts": schema.MapAttribute{
				Computed: true, ElementType: types.StringType,
				MarkdownDescription: "The hosts that have a hypervisor process of the machine, with its role: `active`, or " +
					"`source` and `target` while it is moved.",
			},
			"interfaces":           interfacesAttribute(),
			"guest_os":             guestinfo.OSAttribute(),
			"current_cpu_topology": cpuAttribute(),
			"memory":               memoryAttribute(),
			"disk_errors": schema.MapAttribute{
				Computed: true, ElementType: types.StringType,
				MarkdownDescription: "Disks that had an error which stopped the guest: `NoSpace` or `Unspecified`; null when " +
					"nobody could tell.",
			},
			"qemu_log": schema.ListAttribute{
				Computed: true, ElementType: types.StringType,
				MarkdownDescription: "The last lines of QEMU's log on the host, since it was started last, without its " +
					"command line; null where they can't be read. They are read by a program on the host (`tail`), so only where " +
					"it is reached over SSH, and with the rights of that user.",
			},
			"unavailable": schema.MapAttribute{
				Computed: true, ElementType: types.StringType,
				MarkdownDescription: "Why something isn't known, by who was asked: `" + strings.Join(parts, "`, `") + "`.",
			},
		},
	}
}

// text is a computed string.
func text(description string) schema.StringAttribute {
	return schema.StringAttribute{Computed: true, MarkdownDescription: description}
}

// number is a computed whole number.
func number(description string) schema.Int64Attribute {
	return schema.Int64Attribute{Computed: true, MarkdownDescription: description}
}
