package conditions

import (
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
)

// migrationState is a migration that is under way.
type migrationState struct {
	SourceHost         *string `tfsdk:"source_host"`
	TargetHost         *string `tfsdk:"target_host"`
	StartTime          *string `tfsdk:"start_time"`
	Phase              string  `tfsdk:"phase"`
	Mode               *string `tfsdk:"mode"`
	Method             *string `tfsdk:"method"`
	Completed          bool    `tfsdk:"completed"`
	TotalBytes         *int64  `tfsdk:"total_bytes"`
	ProcessedBytes     *int64  `tfsdk:"processed_bytes"`
	RemainingBytes     *int64  `tfsdk:"remaining_bytes"`
	MemoryRate         *int64  `tfsdk:"memory_bytes_per_second"`
	DirtyRate          *int64  `tfsdk:"dirty_bytes_per_second"`
	Iteration          *int64  `tfsdk:"iteration"`
	AutoConverge       *int64  `tfsdk:"auto_converge_throttle_percent"`
	DowntimeEstimateMS *int64  `tfsdk:"expected_downtime_ms"`
}

func migrationAttribute() schema.SingleNestedAttribute {
	return schema.SingleNestedAttribute{
		Computed: true,
		MarkdownDescription: "The migration that is under way, as its job at the source says; null when none is. Its " +
			"statistics are null while the source doesn't tell them.",
		Attributes: map[string]schema.Attribute{
			"source_host": text("The host that the machine leaves; null when it isn't one of the fleet."),
			"target_host": text("The host that it goes to; null when it isn't one of the fleet."),
			"start_time":  text("When the job began (RFC 3339)."),
			"phase":       text("`Running`."),
			"mode": text("`PreCopy` while the guest runs at the source, `PostCopy` once it runs on the target, `Paused` " +
				"while it stands still."),
			"method": text("`LiveMigration`, or `BlockMigration` when disks are copied, too."),
			"completed": schema.BoolAttribute{
				Computed: true, MarkdownDescription: "Whether it has ended: `false`, as one that has isn't under way.",
			},
			"total_bytes":                    number("What there is to copy, in bytes."),
			"processed_bytes":                number("What was copied, in bytes; more than the total when pages go again."),
			"remaining_bytes":                number("What is left to copy, in bytes."),
			"memory_bytes_per_second":        number("How fast memory is copied."),
			"dirty_bytes_per_second":         number("How fast the guest writes to memory; null in the first iteration."),
			"iteration":                      number("How many times memory was gone through, this time included."),
			"auto_converge_throttle_percent": number("How much the guest is slowed down."),
			"expected_downtime_ms":           number("How long the guest would stand still if it were now, in milliseconds."),
		},
	}
}

func fromMigration(s *migration.State) *migrationState {
	if s == nil {
		return nil
	}
	m := &migrationState{
		SourceHost: orNull(s.SourceHost), TargetHost: orNull(s.TargetHost), StartTime: timeOrNull(s.Start),
		Phase: s.Phase, Mode: orNull(string(s.Mode)), Method: orNull(s.Method), Completed: s.Completed,
	}
	job := s.Statistics
	if !job.Type.Active() {
		return m
	}
	m.TotalBytes, m.ProcessedBytes = whole(job.Data.Total), whole(job.Data.Processed)
	m.RemainingBytes, m.MemoryRate, m.Iteration = whole(job.Data.Remaining), whole(job.MemoryRate), whole(job.Iteration)
	if job.DirtyRate > 0 {
		m.DirtyRate = whole(job.DirtyRate * job.PageSize)
	}
	m.AutoConverge = new(int64(job.AutoConvergeThrottle))
	if job.Downtime > 0 {
		m.DowntimeEstimateMS = new(job.Downtime.Milliseconds())
	}
	return m
}

// whole fits a count into Terraform's numbers.
func whole(n uint64) *int64 { return new(int64(n)) } //nolint:gosec // Nothing here comes near 8 EiB.
