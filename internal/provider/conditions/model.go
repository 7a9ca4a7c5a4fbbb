package conditions

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/observe"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/evacuationsteps"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/guestinfo"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/migrationoptions"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/onevm"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// model is the data source's state.
type model struct {
	onevm.Selection
	TargetHost  types.String `tfsdk:"target_host"`
	RawCommands types.Bool   `tfsdk:"raw_commands"`

	CurrentHost  *string                    `tfsdk:"current_host"`
	Phase        *string                    `tfsdk:"phase"`
	Status       *string                    `tfsdk:"status"`
	StatusReason *string                    `tfsdk:"status_reason"`
	Ready        *bool                      `tfsdk:"ready"`
	Conditions   map[string]Condition       `tfsdk:"conditions"`
	Blockers     []migrationoptions.Blocker `tfsdk:"blockers"`
	Migration    types.Object               `tfsdk:"migration_state"`
	Eviction     *evacuationsteps.Rule      `tfsdk:"eviction"`
	Evacuation   *string                    `tfsdk:"evacuation_host"`
	ActiveHosts  map[string]string          `tfsdk:"active_hosts"`
	Interfaces   []networkInterface         `tfsdk:"interfaces"`
	OS           types.Object               `tfsdk:"os"`
	CPU          *cpuTopology               `tfsdk:"current_cpu_topology"`
	Memory       *memory                    `tfsdk:"memory"`
	DiskErrors   map[string]string          `tfsdk:"disk_errors"`
	QEMULog      []string                   `tfsdk:"qemu_log"`
	Unavailable  map[string]string          `tfsdk:"unavailable"`
}

// fromObservation maps an observation. If the VM's host is unreachable, only that is known.
func (m model) fromObservation(ctx context.Context, o *observe.Observation) (model, diag.Diagnostics) {
	m.Phase = new(status.InstancePhase(o.Facts))
	m.Status = new(status.PrintableStatus(o.Facts))
	m.Conditions = FromFacts(o.Facts)
	if ready := m.Conditions[status.Ready].Status; ready != string(status.Unknown) {
		m.Ready = new(ready == string(status.True))
	}
	m.Migration = migrationoptions.FromRecordWithPhase(o.Migration)
	if o.VM == nil {
		m.OS = types.ObjectNull(guestinfo.OSType)
		return m, nil
	}
	m.Selection = onevm.Of(o.VM)
	m.CurrentHost, m.StatusReason = &o.VM.Host, value.TextOrNull(o.VM.StatusReason())
	if known := o.Facts.Blockers.Value; known != nil {
		m.Blockers = migrationoptions.FromBlockers(*known)
	}
	m.Eviction, m.Evacuation = evacuationsteps.FromRule(o.Rule), value.TextOrNull(o.Facts.EvictedFrom)
	m.ActiveHosts = make(map[string]string, len(o.Facts.ActiveHosts))
	for host, role := range o.Facts.ActiveHosts {
		m.ActiveHosts[host] = string(role)
	}
	m.Interfaces = fromInterfaces(o.Interfaces)
	m.CPU, m.Memory = fromCPU(o.VM.CurrentSpec().CPU), fromMemory(o)
	if o.DiskErrors != nil {
		m.DiskErrors = make(map[string]string, len(o.DiskErrors))
		for disk, kind := range o.DiskErrors {
			m.DiskErrors[disk] = string(kind)
		}
	}
	m.QEMULog, m.Unavailable = o.QEMULog, o.Unavailable
	var diags diag.Diagnostics
	m.OS, diags = guestinfo.FromOS(ctx, o.Guest.Info.OS)
	return m, diags
}

// cpuTopology is the guest's current topology.
type cpuTopology struct {
	VCPUs   *int64 `tfsdk:"vcpus"`
	Sockets *int64 `tfsdk:"sockets"`
	Cores   *int64 `tfsdk:"cores"`
	Threads *int64 `tfsdk:"threads"`
}

func cpuAttribute() schema.SingleNestedAttribute {
	return schema.SingleNestedAttribute{
		Computed: true,
		MarkdownDescription: "Virtual CPUs that the VM has now, or would start with. The configuration may differ: " +
			"see the conditions `HotVCPUChange` and `RestartRequired`.",
		Attributes: map[string]schema.Attribute{
			"vcpus":   value.ReportedNumber("Number of virtual CPUs online."),
			"sockets": value.ReportedNumber("Number of sockets online. Null if the virtual CPUs don't fill them."),
			"cores":   value.ReportedNumber("Cores per socket."),
			"threads": value.ReportedNumber("Threads per core."),
		},
	}
}

func fromCPU(cpu domain.CPU) *cpuTopology {
	return &cpuTopology{
		VCPUs: value.WholeOrNull(cpu.VCPUs), Sockets: value.WholeOrNull(cpu.Sockets), Cores: value.WholeOrNull(cpu.Cores),
		Threads: value.WholeOrNull(cpu.Threads),
	}
}

// memory is how much memory the guest had, has and should have.
type memory struct {
	AtBoot    *int64 `tfsdk:"guest_at_boot_bytes"`
	Current   *int64 `tfsdk:"guest_current_bytes"`
	Requested *int64 `tfsdk:"guest_requested_bytes"`
}

func memoryAttribute() schema.SingleNestedAttribute {
	return schema.SingleNestedAttribute{
		Computed:            true,
		MarkdownDescription: "The guest's memory.",
		Attributes: map[string]schema.Attribute{
			"guest_at_boot_bytes": value.ReportedNumber(
				"Memory that the VM started with, or would start with, without memory that was added later."),
			"guest_current_bytes": value.ReportedNumber(
				"Memory that the guest has now, without what the balloon took. Null while the VM is off."),
			"guest_requested_bytes": value.ReportedNumber("Memory in the definition. Null for a transient VM."),
		},
	}
}

func fromMemory(o *observe.Observation) *memory {
	m := &memory{}
	if o.BootMemory > 0 {
		m.AtBoot = new(value.Whole(o.BootMemory))
	}
	if live := o.VM.LiveSpec; live != nil {
		m.Current = value.WholeOrNull(live.Memory.Size)
	}
	if persistent := o.VM.PersistentSpec; persistent != nil {
		m.Requested = value.WholeOrNull(persistent.Memory.Size)
	}
	return m
}
