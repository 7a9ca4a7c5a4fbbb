package guestinfo

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/guest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/onevm"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// model is the data source's state.
type model struct {
	onevm.Selection
	RawCommands types.Bool     `tfsdk:"raw_commands"`
	Wait        value.Duration `tfsdk:"wait"`
	Probe       *probe         `tfsdk:"probe"`

	AgentConnected  types.Bool        `tfsdk:"agent_connected"`
	AgentVersion    types.String      `tfsdk:"agent_version"`
	AgentCommands   types.List        `tfsdk:"agent_commands"`
	AgentSupported  *bool             `tfsdk:"agent_supported"`
	MissingCommands []string          `tfsdk:"missing_commands"`
	Hostname        types.String      `tfsdk:"hostname"`
	OS              types.Object      `tfsdk:"os"`
	Timezone        types.Object      `tfsdk:"timezone"`
	Users           []user            `tfsdk:"users"`
	Filesystems     []filesystem      `tfsdk:"filesystems"`
	Disks           []disk            `tfsdk:"disks"`
	Interfaces      []interfaceModel  `tfsdk:"interfaces"`
	Load            *load             `tfsdk:"load"`
	VCPUs           *vcpus            `tfsdk:"vcpus"`
	FSFreezeStatus  *string           `tfsdk:"fsfreeze_status"`
	ProbeResult     *probeResult      `tfsdk:"probe_result"`
	Unavailable     map[string]string `tfsdk:"unavailable"`
}

// fromReport maps the agent's report. What the agent didn't report is null.
func fromReport(ctx context.Context, r *guest.Report) (model, diag.Diagnostics) {
	var diags, d diag.Diagnostics
	m := model{
		AgentConnected: types.BoolValue(r.AgentConnected),
		AgentCommands:  value.NewStringList(nil),
		Hostname:       types.StringPointerValue(r.Info.Hostname),
		Users:          fromUsers(r.Info.Users),
		Filesystems:    fromFilesystems(r.Info.Filesystems),
		Disks:          fromDisks(r.Info.Disks),
		Interfaces:     fromInterfaces(r),
		Load:           fromLoad(r.Info.Load),
		VCPUs:          fromVCPUs(r.VCPUs),
		FSFreezeStatus: r.FSFreeze,
		ProbeResult:    fromProbe(r.Probe),
		Unavailable:    make(map[string]string, len(r.Unavailable)),
	}
	if r.Agent != nil {
		m.AgentVersion = types.StringValue(r.Agent.Version)
		m.AgentCommands = value.NewStringList(append([]string{}, r.Agent.Commands...))
	}
	// A refused command is certainly missing. Only the agent's own list shows that no command is missing.
	if lacks, exact := r.Lacks(); exact || len(lacks) > 0 {
		m.AgentSupported, m.MissingCommands = new(len(lacks) == 0), append([]string{}, lacks...)
	}
	m.OS, d = FromOS(ctx, r.Info.OS)
	diags.Append(d...)
	m.Timezone, d = fromTimezone(ctx, r.Info.Timezone)
	diags.Append(d...)
	for group, gap := range r.Unavailable {
		m.Unavailable[string(group)] = gap.String()
	}
	return m, diags
}
