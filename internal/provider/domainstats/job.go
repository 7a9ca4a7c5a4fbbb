package domainstats

import (
	"time"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

var jobFields = fields[libvirt.Job]{
	textField("operation", "Operation, such as `MigrationOut`, `Backup` or `Save`.",
		func(j libvirt.Job) string { return j.Operation }),
	secondsField("elapsed_seconds", "Time since the job began.", func(j libvirt.Job) *time.Duration { return &j.Elapsed }),
	secondsField("setup_seconds", "Time before copying began.",
		func(j libvirt.Job) *time.Duration { return &j.SetupTime }),
	secondsField("downtime_seconds",
		"Hypervisor's estimate of how long the guest would be paused if the migration ended now.",
		func(j libvirt.Job) *time.Duration { return &j.Downtime }),
	wholeField("data_total_bytes", "Memory and disks to copy.", func(j libvirt.Job) *uint64 { return &j.Data.Total }),
	wholeField("data_processed_bytes",
		"Bytes that were copied. Pages that the guest changed meanwhile count more than once.",
		func(j libvirt.Job) *uint64 { return &j.Data.Processed }),
	wholeField("data_remaining_bytes", "Bytes that are left to copy.",
		func(j libvirt.Job) *uint64 { return &j.Data.Remaining }),
	wholeField("disk_total_bytes", "Bytes of disks to copy.", func(j libvirt.Job) *uint64 { return &j.Disk.Total }),
	wholeField("disk_processed_bytes", "Bytes of disks that were copied.",
		func(j libvirt.Job) *uint64 { return &j.Disk.Processed }),
	wholeField("disk_remaining_bytes", "Bytes of disks that are left to copy.",
		func(j libvirt.Job) *uint64 { return &j.Disk.Remaining }),
	wholeField("memory_bytes_per_second", "Rate at which memory is copied.",
		func(j libvirt.Job) *uint64 { return &j.MemoryRate }),
	wholeField("disk_bytes_per_second", "Rate at which disks are copied.",
		func(j libvirt.Job) *uint64 { return &j.DiskRate }),
	wholeField("dirty_bytes_per_second", "Rate at which the guest writes to its memory. 0 before the second iteration.",
		func(j libvirt.Job) *uint64 { return new(j.DirtyRate * j.PageSize) }),
	wholeField("iterations", "Number of passes over the guest's memory, including the current one.",
		func(j libvirt.Job) *uint64 { return &j.Iteration }),
	wholeField("auto_converge_throttle", "How much auto-converge slows the guest down, in percent.",
		func(j libvirt.Job) *uint64 { return new(uint64(max(j.AutoConvergeThrottle, 0))) }),
	wholeField("post_copy_requests", "Number of pages that the guest had to wait for after the switch to post-copy.",
		func(j libvirt.Job) *uint64 { return &j.PostCopyRequests }),
}

// fromJob maps the running job. A nil job is null.
func fromJob(j *libvirt.Job) attr.Value {
	if j == nil {
		return types.ObjectNull(jobFields.objectType().AttrTypes)
	}
	return jobFields.object(*j)
}
