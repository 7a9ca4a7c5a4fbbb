package domainstats

import (
	"time"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

var jobFields = fields[libvirt.Job]{
	text("operation", "What is being done: `MigrationOut`, `Backup`, `Save`, ...",
		func(j libvirt.Job) string { return j.Operation }),
	seconds("elapsed_seconds", "Time since it began.", func(j libvirt.Job) *time.Duration { return &j.Elapsed }),
	seconds("downtime_seconds", "How long the guest would stand still if it ended now, by the hypervisor's estimate.",
		func(j libvirt.Job) *time.Duration { return &j.Downtime }),
	whole("data_total_bytes", "What has to be moved.", func(j libvirt.Job) *uint64 { return &j.Data.Total }),
	whole("data_processed_bytes", "What was moved; memory that was written to meanwhile is moved again.",
		func(j libvirt.Job) *uint64 { return &j.Data.Processed }),
	whole("data_remaining_bytes", "What is left.", func(j libvirt.Job) *uint64 { return &j.Data.Remaining }),
	whole("memory_bytes_per_second", "How fast memory is moved.", func(j libvirt.Job) *uint64 { return &j.MemoryRate }),
	whole("disk_bytes_per_second", "How fast disks are moved.", func(j libvirt.Job) *uint64 { return &j.DiskRate }),
	whole("dirty_bytes_per_second", "How fast the guest writes to its memory; 0 before the second iteration.",
		func(j libvirt.Job) *uint64 { return new(j.DirtyRate * j.PageSize) }),
	whole("iteration", "Pass over the memory.", func(j libvirt.Job) *uint64 { return &j.Iteration }),
}

// fromJob maps the job that runs; there may be none.
func fromJob(j *libvirt.Job) attr.Value {
	if j == nil {
		return types.ObjectNull(jobFields.objectType().AttrTypes)
	}
	return jobFields.object(*j)
}
