package migrationoptions

import (
	"maps"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	datasource "github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	resource "github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// State is the name of the block with the progress or the result of a migration.
const State = "migration_state"

var stateAttributes = map[string]resource.Attribute{
	"source_host": computedString("Host that the VM moved from."),
	"target_host": computedString("Host that the VM moved to."),
	"start_time":  computedString("Start of the migration, in RFC 3339."),
	"end_time":    computedString("End of the migration, or when the end was noticed, in RFC 3339."),
	"mode": computedString(
		"How memory was moved: `PreCopy`, `PostCopy`, or `Paused` if the guest was paused for it. Null for a " +
			"VM that was off."),
	"method": computedString(
		"`LiveMigration`; `BlockMigration` if disks were copied too; `ColdMigration` for a VM that was off."),
	"transport": computedString(
		"Transport that was used: `direct`, `tls` or `ssh_relay`. If several were tried, the last one. " +
			"While the migration runs, the requested one. Null for a VM that was off, and if nothing was copied."),
	"completed":      computedBool("Whether the migration is over. `failed` says how it ended."),
	"failed":         computedBool("Whether the migration ended without moving the VM."),
	"failure_reason": computedString("Why it failed."),
	"failure_plane":  computedString("What failed: `control` is the preparation, `data` the copying."),
	"abort_requested": computedBool("Whether an abort of the migration was requested. Null while the migration " +
		"runs."),
	"abort_status": computedString(
		"Result of the abort: `Succeeded`, or `Failed` if it came too late and the VM is on the " +
			"target. `Aborting`: the run that aborts it hasn't recorded the result yet."),
	"recovered": computedBool("Whether the migration was interrupted and then resumed and completed."),
	PolicyName: computedString(
		"Name of the `virtfleet_migration_policy` that applied to the VM when it was moved. Null: none, " +
			"or nothing was moved."),
	Effective: effectiveOfResource("Options that the VM was moved with, after all policies and defaults. Null: nothing " +
		"was moved."),
	"statistics": resource.SingleNestedAttribute{
		Computed:            true,
		MarkdownDescription: "Last statistics of the migration. Null for a VM that was off.",
		Attributes:          statisticsAttributes,
	},
}

// statisticsAttributes have the names and units of domain_stats' job.
var statisticsAttributes = map[string]resource.Attribute{
	"elapsed_seconds": computedSeconds("Duration."),
	"downtime_seconds": computedSeconds(
		"How long the guest was paused. While the migration runs, the expected time. Null if it " +
			"isn't measured: after post-copy and after a failure."),
	"setup_seconds":    computedSeconds("Time before copying began."),
	"data_total_bytes": computedNumber("Memory and disks to copy."),
	"data_processed_bytes": computedNumber(
		"Bytes that were copied. Pages that the guest changed meanwhile count more than " +
			"once."),
	"data_remaining_bytes":    computedNumber("Bytes that were left to copy."),
	"disk_total_bytes":        computedNumber("Bytes of disks to copy."),
	"disk_processed_bytes":    computedNumber("Bytes of disks that were copied."),
	"disk_remaining_bytes":    computedNumber("Bytes of disks that were left to copy."),
	"memory_bytes_per_second": computedNumber("Last rate at which memory was copied."),
	"dirty_bytes_per_second":  computedNumber("Last rate at which the guest wrote to its memory."),
	"iterations":              computedNumber("Number of passes over the guest's memory."),
	"auto_converge_throttle":  computedNumber("How much auto-converge slowed the guest down, in percent."),
	"post_copy_requests": computedNumber(
		"Number of pages that the guest had to wait for after the switch to post-copy."),
}

// StateType is the type of the block in a resource, and stateWithPhaseType its type in a data source.
var (
	StateType          = types.ObjectType{AttrTypes: typesOf(stateAttributes)}
	stateWithPhaseType = types.ObjectType{AttrTypes: typesOf(stateWithPhase)}
	statisticsType     = types.ObjectType{AttrTypes: typesOf(statisticsAttributes)}
)

// stateWithPhase are the attributes of the block in a data source, which has no other attribute for the phase.
var stateWithPhase = func() map[string]resource.Attribute {
	all := maps.Clone(stateAttributes)
	all["phase"] = computedString("Phase of the migration, as KubeVirt names it: `Running` while it is in progress, " +
		"`Succeeded` or `Failed` once it is over, or a phase before `Running`, such as `Scheduling`, if its run was " +
		"killed then.")
	return all
}()

// StateOfResource returns the block in a resource, which has an attribute of its own for the phase.
func StateOfResource(description string) resource.Attribute {
	return resource.SingleNestedAttribute{
		MarkdownDescription: description, Attributes: stateAttributes, Computed: true,
	}
}

// StateOfDataSource returns the block in a data source, with the phase.
func StateOfDataSource(description string) datasource.Attribute {
	return datasource.SingleNestedAttribute{
		MarkdownDescription: description, Attributes: toDataSource(stateWithPhase), Computed: true,
	}
}

// FromRecord returns the block of a resource for the record of a migration.
func FromRecord(r domain.Migration) types.Object {
	return types.ObjectValueMust(StateType.AttrTypes, recordValues(r))
}

// FromRecordWithPhase returns the block of a data source for the record of a migration, null if there is no record.
func FromRecordWithPhase(r *domain.Migration) types.Object {
	if r == nil {
		return types.ObjectNull(stateWithPhaseType.AttrTypes)
	}
	all := recordValues(*r)
	all["phase"] = value.NewStringOrNull(r.Phase)
	return types.ObjectValueMust(stateWithPhaseType.AttrTypes, all)
}

func recordValues(r domain.Migration) map[string]attr.Value {
	aborted := types.BoolNull()
	if r.Completed() { // Before that, it isn't recorded.
		aborted = types.BoolValue(r.AbortRequested)
	}
	return map[string]attr.Value{
		"source_host":     value.NewStringOrNull(r.SourceHost),
		"target_host":     value.NewStringOrNull(r.TargetHost),
		"start_time":      timeOrNull(r.Start),
		"end_time":        timeOrNull(r.End),
		"mode":            value.NewStringOrNull(r.Mode),
		"method":          value.NewStringOrNull(r.Method),
		"transport":       value.NewStringOrNull(r.Transport),
		"completed":       types.BoolValue(r.Completed() || r.Failed),
		"failed":          types.BoolValue(r.Failed),
		"failure_reason":  value.NewStringOrNull(r.FailureReason),
		"failure_plane":   value.NewStringOrNull(r.FailurePlane),
		"abort_requested": aborted,
		"abort_status":    value.NewStringOrNull(r.AbortStatus),
		"recovered":       types.BoolValue(r.Recovered),
		"statistics":      fromStatistics(r.Statistics),
		PolicyName:        value.NewStringOrNull(r.Policy),
		Effective:         inForce(r),
	}
}

// inForce returns the options that the migration was started with, null if they weren't recorded.
func inForce(r domain.Migration) types.Object {
	o, err := migration.ParseOptions(r.Options)
	if err != nil {
		return types.ObjectNull(Type.AttrTypes)
	}
	return FromEffective(o)
}

func fromStatistics(s domain.MigrationStatistics) types.Object {
	if s == (domain.MigrationStatistics{}) {
		return types.ObjectNull(statisticsType.AttrTypes)
	}
	remaining := types.Int64Null()
	if s.DiskTotal > 0 {
		remaining = types.Int64Value(value.Whole(s.DiskRemaining))
	}
	return types.ObjectValueMust(statisticsType.AttrTypes, map[string]attr.Value{
		"elapsed_seconds":         fromMilliseconds(s.Elapsed),
		"downtime_seconds":        fromMilliseconds(s.Downtime),
		"setup_seconds":           fromMilliseconds(s.Setup),
		"data_total_bytes":        int64OrNull(s.Total),
		"data_processed_bytes":    int64OrNull(s.Processed),
		"data_remaining_bytes":    types.Int64Value(value.Whole(s.Remaining)),
		"disk_total_bytes":        int64OrNull(s.DiskTotal),
		"disk_processed_bytes":    int64OrNull(s.DiskProcessed),
		"disk_remaining_bytes":    remaining,
		"memory_bytes_per_second": int64OrNull(s.Rate),
		"dirty_bytes_per_second":  int64OrNull(s.DirtyRate),
		"iterations":              int64OrNull(s.Iterations),
		"auto_converge_throttle":  int64OrNull(s.Throttle),
		"post_copy_requests":      int64OrNull(s.PostCopyRequests),
	})
}

// fromMilliseconds returns a time in seconds, and null for 0, which means unknown.
func fromMilliseconds(ms uint64) types.Float64 {
	if ms == 0 {
		return types.Float64Null()
	}
	return types.Float64Value(float64(ms) / 1000)
}

// int64OrNull returns a number, and null for 0, which means unknown.
func int64OrNull(n uint64) types.Int64 {
	if n == 0 {
		return types.Int64Null()
	}
	return types.Int64Value(value.Whole(n))
}

func timeOrNull(t time.Time) types.String {
	if t.IsZero() {
		return types.StringNull()
	}
	return types.StringValue(t.UTC().Format(time.RFC3339Nano))
}

func computedString(description string) resource.Attribute {
	return resource.StringAttribute{Computed: true, MarkdownDescription: description}
}

func computedBool(description string) resource.Attribute {
	return resource.BoolAttribute{Computed: true, MarkdownDescription: description}
}

func computedSeconds(description string) resource.Attribute {
	return resource.Float64Attribute{Computed: true, MarkdownDescription: description}
}

func computedNumber(description string) resource.Attribute {
	return resource.Int64Attribute{Computed: true, MarkdownDescription: description}
}
