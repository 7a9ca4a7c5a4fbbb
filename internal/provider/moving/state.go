package moving

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

// State is the name of the block that says how a migration goes, or went.
const State = "migration_state"

var stateAttributes = map[string]resource.Attribute{
	"source_host": text("Host that the machine was on."),
	"target_host": text("Host that it was moved to."),
	"start_time":  text("When it began, in RFC 3339."),
	"end_time":    text("When it ended, or was found to have."),
	"mode": text("How memory was moved: `PreCopy`, `PostCopy`, or `Paused` where the guest was stopped for it. Null " +
		"for a machine that was off."),
	"method": text("What was moved: `LiveMigration`; `BlockMigration`, its disks too; or `ColdMigration` of a " +
		"machine that was off."),
	"transport": text("How memory got from host to host, whatever was asked for: `direct`, `tls` or `ssh_relay`; " +
		"where several were tried, the last one. Null for a machine that was off, and where it didn't come to that. Of a " +
		"migration that isn't over, what was asked for."),
	"completed":       fact("Whether it is over; see `failed` for how."),
	"failed":          fact("Whether it ended without moving the machine."),
	"failure_reason":  text("Why it failed."),
	"failure_plane":   text("What it failed at: `control` is all that prepares it, `data` the copying itself."),
	"abort_requested": fact("Whether it was to be aborted. Null while it isn't over."),
	"abort_status": text("What became of that: `Succeeded`, or `Failed` where it came too late and the machine " +
		"is on the target."),
	"recovered": fact("Whether it broke on the way and was brought to its end all the same."),
	PolicyName: text("Name of the `virtfleet_migration_policy` that held for the machine when it was moved. " +
		"Null: none, or nothing was moved."),
	InForce: InForceOfResource("The options that it was moved with, wherever they came from. Null: " +
		"nothing was moved."),
	"statistics": resource.SingleNestedAttribute{
		Computed:            true,
		MarkdownDescription: "Its last numbers. Null for a machine that was off.",
		Attributes:          statisticsAttributes,
	},
}

var statisticsAttributes = map[string]resource.Attribute{
	"elapsed_ms": number("How long it took, in milliseconds."),
	"downtime_ms": number("How long the guest stood still, in milliseconds; of a migration that isn't over, how " +
		"long it would."),
	"setup_ms":               number("How long it took to begin with copying, in milliseconds."),
	"total_bytes":            number("How much there was to copy, memory and disks."),
	"processed_bytes":        number("How much was copied, what the guest wrote to meanwhile more than once."),
	"remaining_bytes":        number("How much was left."),
	"disk_total_bytes":       number("How much of the disks there was to copy."),
	"disk_processed_bytes":   number("How much of the disks was copied."),
	"disk_remaining_bytes":   number("How much of the disks was left."),
	"bytes_per_second":       number("How fast memory was copied at last."),
	"dirty_bytes_per_second": number("How fast the guest wrote to its memory at last."),
	"iterations":             number("How many times its memory was gone through."),
	"auto_converge_throttle": number("By how many percent auto-converge slowed the guest down."),
	"post_copy_requests":     number("How many pages the guest had to wait for after the switch to post-copy."),
}

// StateType is the type of the block in a resource, stateWithPhaseType that in a data source.
var (
	StateType          = types.ObjectType{AttrTypes: typesOf(stateAttributes)}
	stateWithPhaseType = types.ObjectType{AttrTypes: typesOf(stateWithPhase)}
	statisticsType     = types.ObjectType{AttrTypes: typesOf(statisticsAttributes)}
)

// stateWithPhase is the block where no attribute beside it has the phase.
var stateWithPhase = func() map[string]resource.Attribute {
	all := maps.Clone(stateAttributes)
	all["phase"] = text("Phase of the migration, as KubeVirt names it: `Running` while it goes on, `Succeeded` " +
		"or `Failed` when it is over, an earlier one where the run that began it was killed.")
	return all
}()

// StateOfResource is the block in a resource, which has the phase beside it.
func StateOfResource(description string) resource.Attribute {
	return resource.SingleNestedAttribute{
		MarkdownDescription: description, Attributes: stateAttributes, Computed: true,
	}
}

// StateOfDataSource is the block in a data source, with the phase.
func StateOfDataSource(description string) datasource.Attribute {
	return datasource.SingleNestedAttribute{
		MarkdownDescription: description, Attributes: toDataSource(stateWithPhase), Computed: true,
	}
}

// FromRecord says what is recorded of a migration.
func FromRecord(r domain.Migration) types.Object {
	return types.ObjectValueMust(StateType.AttrTypes, recorded(r))
}

// FromRecordWithPhase says the same as the block of a data source, null where there is no record.
func FromRecordWithPhase(r *domain.Migration) types.Object {
	if r == nil {
		return types.ObjectNull(stateWithPhaseType.AttrTypes)
	}
	all := recorded(*r)
	all["phase"] = value.NewStringOrNull(r.Phase)
	return types.ObjectValueMust(stateWithPhaseType.AttrTypes, all)
}

func recorded(r domain.Migration) map[string]attr.Value {
	aborted := types.BoolNull()
	if r.Completed() { // Nobody writes it down before.
		aborted = types.BoolValue(r.AbortRequested)
	}
	return map[string]attr.Value{
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
		"abort_requested": aborted,
		"abort_status":    value.NewStringOrNull(r.AbortStatus),
		"recovered":       types.BoolValue(r.Recovered),
		"statistics":      fromStatistics(r.Statistics),
		PolicyName:        value.NewStringOrNull(r.Policy),
		InForce:           inForce(r),
	}
}

// inForce are the options that it was begun with, null where nobody wrote them down.
func inForce(r domain.Migration) types.Object {
	o, err := migration.ParseOptions(r.Options)
	if err != nil {
		return types.ObjectNull(Type.AttrTypes)
	}
	return FromInForce(o)
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

func text(description string) resource.Attribute {
	return resource.StringAttribute{Computed: true, MarkdownDescription: description}
}

func fact(description string) resource.Attribute {
	return resource.BoolAttribute{Computed: true, MarkdownDescription: description}
}

func number(description string) resource.Attribute {
	return resource.Int64Attribute{Computed: true, MarkdownDescription: description}
}
