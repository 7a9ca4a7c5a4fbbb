package migration

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	fleetmigration "github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/moving"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// model is the resource's configuration, plan and state.
type model struct {
	VirtualMachineID types.String   `tfsdk:"virtual_machine_id"`
	TargetHost       types.String   `tfsdk:"target_host"`
	Triggers         types.Map      `tfsdk:"triggers"`
	MigrationOptions types.Object   `tfsdk:"migration_options"`
	Timeouts         timeouts.Value `tfsdk:"timeouts"`
	ID               types.String   `tfsdk:"id"`
	Phase            types.String   `tfsdk:"phase"`
	MigrationState   types.Object   `tfsdk:"migration_state"`
}

var (
	statisticsType = types.ObjectType{AttrTypes: typesOf(statisticsAttributes)}
	stateType      = types.ObjectType{AttrTypes: typesOf(stateAttributes)}
)

func typesOf(level attributes) map[string]attr.Type {
	all := make(map[string]attr.Type, len(level))
	for name, a := range level {
		all[name] = a.GetType()
	}
	return all
}

// identity is the id of the migration, unknown as long as what it follows from is.
func (m *model) identity() types.String {
	of := struct {
		VirtualMachine, Target string
		Triggers               map[string]string `json:",omitempty"`
	}{m.VirtualMachineID.ValueString(), m.TargetHost.ValueString(), value.StringMap(m.Triggers)}
	unknown := m.VirtualMachineID.IsUnknown() || m.TargetHost.IsUnknown() || m.Triggers.IsUnknown()
	for _, v := range m.Triggers.Elements() {
		unknown = unknown || v.IsUnknown()
	}
	if unknown {
		return types.StringUnknown()
	}
	// Maps are written in the order of their keys.
	data, err := json.Marshal(of)
	if err != nil {
		return types.StringUnknown()
	}
	sum := sha256.Sum256(data)
	return types.StringValue(hex.EncodeToString(sum[:16]))
}

// order is what the fleet is told.
func (m *model) order(last fleet.LastKnown) fleet.MoveOrder {
	return fleet.MoveOrder{
		UUID: m.VirtualMachineID.ValueString(), Last: last, ID: m.identity().ValueString(),
		Target: m.TargetHost.ValueString(), Options: moving.Options(m.MigrationOptions),
		Priority: fleet.PriorityUser,
	}
}

// fromRecord takes over how it went.
func (m *model) fromRecord(r domain.Migration) {
	m.Phase = types.StringValue(r.Phase)
	m.MigrationState = types.ObjectValueMust(stateType.AttrTypes, map[string]attr.Value{
		"source_host":     value.NewStringOrNull(r.SourceHost),
		"target_host":     value.NewStringOrNull(r.TargetHost),
		"start_time":      moment(r.Start),
		"end_time":        moment(r.End),
		"mode":            value.NewStringOrNull(r.Mode),
		"method":          value.NewStringOrNull(r.Method),
		"transport":       value.NewStringOrNull(r.Transport),
		"completed":       types.BoolValue(r.Completed()),
		"failed":          types.BoolValue(r.Failed),
		"failure_reason":  value.NewStringOrNull(r.FailureReason),
		"failure_plane":   value.NewStringOrNull(r.FailurePlane),
		"abort_requested": types.BoolValue(r.AbortRequested),
		"abort_status":    value.NewStringOrNull(r.AbortStatus),
		"recovered":       types.BoolValue(r.Recovered),
		"statistics":      fromStatistics(r.Statistics),
		moving.PolicyName: value.NewStringOrNull(r.Policy),
		moving.InForce:    inForce(r),
	})
}

// inForce are the options that it was begun with, null where nobody wrote them down.
func inForce(r domain.Migration) types.Object {
	o, err := fleetmigration.ParseOptions(r.Options)
	if err != nil {
		return types.ObjectNull(moving.Type.AttrTypes)
	}
	return moving.FromInForce(o)
}

// isNewer says that the state is about a later try than the record: one that failed before there was one.
func (m *model) isNewer(r domain.Migration) bool {
	start, _ := m.MigrationState.Attributes()["start_time"].(types.String)
	began, err := time.Parse(time.RFC3339Nano, start.ValueString())
	return err == nil && began.After(r.Start)
}

func fromStatistics(s domain.MigrationStatistics) types.Object {
	if s == (domain.MigrationStatistics{}) {
		return types.ObjectNull(statisticsType.AttrTypes)
	}
	remaining := types.Int64Null()
	if s.DiskTotal > 0 {
		remaining = types.Int64Value(int64(s.DiskRemaining)) //nolint:gosec // No disk is that large.
	}
	return types.ObjectValueMust(statisticsType.AttrTypes, map[string]attr.Value{
		"elapsed_ms":             reported(s.Elapsed),
		"downtime_ms":            reported(s.Downtime),
		"setup_ms":               reported(s.Setup),
		"total_bytes":            reported(s.Total),
		"processed_bytes":        reported(s.Processed),
		"remaining_bytes":        types.Int64Value(int64(s.Remaining)), //nolint:gosec // No memory is that large.
		"disk_total_bytes":       reported(s.DiskTotal),
		"disk_processed_bytes":   reported(s.DiskProcessed),
		"disk_remaining_bytes":   remaining,
		"bytes_per_second":       reported(s.Rate),
		"dirty_bytes_per_second": reported(s.DirtyRate),
		"iterations":             reported(s.Iterations),
		"auto_converge_throttle": reported(s.Throttle),
		"post_copy_requests":     reported(s.PostCopyRequests),
	})
}

// reported is a number where 0 means that nobody said.
func reported(n uint64) types.Int64 {
	if n == 0 {
		return types.Int64Null()
	}
	return types.Int64Value(int64(n)) //nolint:gosec // No memory is that large.
}

func moment(t time.Time) types.String {
	if t.IsZero() {
		return types.StringNull()
	}
	return types.StringValue(t.UTC().Format(time.RFC3339Nano))
}
