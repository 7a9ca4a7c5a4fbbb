package libvirt

import (
	"context"
	"time"

	golibvirt "libvirt.org/go/libvirt"
)

// JobType is the state of a job.
type JobType int

// The types of jobs, numbered as libvirt numbers them.
const (
	JobNone JobType = iota
	// JobBounded is running, and the time that it will take is known.
	JobBounded
	// JobUnbounded is running, and the time that it will take is unknown, as for a migration.
	JobUnbounded
	// JobCompleted has succeeded.
	JobCompleted
	// JobFailed has failed.
	JobFailed
	// JobCancelled was aborted.
	JobCancelled
)

var jobTypeNames = [...]string{
	JobNone: "None", JobBounded: "Bounded", JobUnbounded: "Unbounded", JobCompleted: "Completed", JobFailed: "Failed",
	JobCancelled: "Cancelled",
}

// String returns the name of the type, "Unknown" for a type that this version doesn't know.
func (t JobType) String() string { return nameAt(jobTypeNames[:], int(t)) }

// Active reports whether the job still runs.
func (t JobType) Active() bool { return t == JobBounded || t == JobUnbounded }

// The operations of a Job that other packages check.
const (
	OperationSave         = "Save"
	OperationDump         = "Dump"
	OperationSnapshot     = "Snapshot"
	OperationMigrationIn  = "MigrationIn"
	OperationMigrationOut = "MigrationOut"
	OperationBackup       = "Backup"
)

var jobOperationNames = []string{
	golibvirt.DOMAIN_JOB_OPERATION_UNKNOWN:         unknownName,
	golibvirt.DOMAIN_JOB_OPERATION_START:           "Start",
	golibvirt.DOMAIN_JOB_OPERATION_SAVE:            OperationSave,
	golibvirt.DOMAIN_JOB_OPERATION_RESTORE:         "Restore",
	golibvirt.DOMAIN_JOB_OPERATION_MIGRATION_IN:    OperationMigrationIn,
	golibvirt.DOMAIN_JOB_OPERATION_MIGRATION_OUT:   OperationMigrationOut,
	golibvirt.DOMAIN_JOB_OPERATION_SNAPSHOT:        OperationSnapshot,
	golibvirt.DOMAIN_JOB_OPERATION_SNAPSHOT_REVERT: "SnapshotRevert",
	golibvirt.DOMAIN_JOB_OPERATION_DUMP:            OperationDump,
	golibvirt.DOMAIN_JOB_OPERATION_BACKUP:          OperationBackup,
	golibvirt.DOMAIN_JOB_OPERATION_SNAPSHOT_DELETE: "SnapshotDelete",
}

// Transfer counts the bytes that a job has to transfer. Remaining may grow while the guest writes to its memory, and
// Processed may exceed Total because memory that was written to is sent again.
type Transfer struct{ Total, Processed, Remaining uint64 }

// Job is what libvirt knows about a domain's job: a migration, a backup, a save. Values that it doesn't report are 0.
type Job struct {
	Type JobType
	// Operation is the kind of job: OperationMigrationOut, OperationBackup, ...
	Operation string
	// Elapsed is the time since the start.
	Elapsed time.Duration
	// Downtime is how long the guest is paused: as measured for a completed migration, otherwise QEMU's estimate.
	Downtime time.Duration
	// SetupTime is how long the migration took before it began to copy.
	SetupTime time.Duration
	// Data is Memory and Disk together.
	Data, Memory, Disk Transfer
	// MemoryRate and DiskRate are the latest rates in bytes per second.
	MemoryRate, DiskRate uint64
	// DirtyRate is how fast the guest writes to its memory, in pages of PageSize bytes per second. It is known from the
	// second iteration on.
	DirtyRate uint64
	PageSize  uint64
	// Iteration counts the passes over the memory, including the current one.
	Iteration uint64
	// ConstantPages had the same byte throughout and were sent as that byte; NormalPages were sent in full.
	ConstantPages, NormalPages uint64
	// PostCopyRequests counts the pages that the guest had to wait for after the switch to post-copy.
	PostCopyRequests uint64
	// AutoConvergeThrottle is by how many percent auto-converge slows the guest down.
	AutoConvergeThrottle int
	// Error is libvirt's message about a failed job, if it has one.
	Error string
}

// Within returns the statistics of a migration that took no longer than took, by the clock of whoever waited for it.
// libvirt computes both times from the clocks of two hosts: if the downtime is longer than the whole migration, these
// clocks differ. Then the downtime isn't known.
func (j Job) Within(took time.Duration) Job {
	if j.Downtime > took {
		j.Downtime, j.Elapsed = 0, min(j.Elapsed, took)
	}
	return j
}

// monitorCall describes a call that asks the hypervisor process and changes nothing.
func monitorCall(operation string) callSpec {
	return callSpec{operation: operation, lane: slow, timeout: readTimeout, repeat: true, late: ErrBusy}
}

// jobControlCall describes a call that controls a running job.
func jobControlCall(operation string) callSpec {
	return callSpec{operation: operation, lane: slow, timeout: readTimeout, late: ErrBusy, writes: true}
}

// Job reads the statistics of the job that runs on a domain (virDomainGetJobStats); nil if none runs. Only the source
// of a migration has them: on the target it returns ErrUnsupported.
func (h *Host) Job(ctx context.Context, uuid string) (*Job, error) {
	return h.readJob(ctx, uuid, 0)
}

// CompletedJob reads the statistics of the last job that ended on a domain, nil if there was none since its start.
// After a migration the target has them, with the measured downtime; after a failed migration the source has them.
func (h *Host) CompletedJob(ctx context.Context, uuid string) (*Job, error) {
	// Without KEEP, libvirt forgets the statistics when they are read.
	return h.readJob(ctx, uuid, golibvirt.DOMAIN_JOB_STATS_COMPLETED|golibvirt.DOMAIN_JOB_STATS_KEEP_COMPLETED)
}

func (h *Host) readJob(ctx context.Context, uuid string, flags golibvirt.DomainGetJobStatsFlags) (*Job, error) {
	s := monitorCall("reading the job of domain " + uuid)
	return onDomain(ctx, h, s, uuid, func(c *conn, d *golibvirt.Domain) (*Job, error) {
		c.countCall("virDomainGetJobStats")
		info, err := d.GetJobStats(flags)
		if err != nil || info.Type == golibvirt.DOMAIN_JOB_NONE {
			return nil, err
		}
		return newJob(info), nil
	})
}

func newJob(info *golibvirt.DomainJobInfo) *Job {
	return &Job{
		Type:      JobType(info.Type),
		Operation: nameAt(jobOperationNames, int(info.Operation)),
		Elapsed:   milliseconds(info.TimeElapsed),
		Downtime:  milliseconds(info.Downtime),
		SetupTime: milliseconds(info.SetupTime),
		Data:      Transfer{info.DataTotal, info.DataProcessed, info.DataRemaining},
		Memory:    Transfer{info.MemTotal, info.MemProcessed, info.MemRemaining},
		Disk:      Transfer{info.DiskTotal, info.DiskProcessed, info.DiskRemaining},

		MemoryRate: info.MemBps, DiskRate: info.DiskBps,
		DirtyRate: info.MemDirtyRate, PageSize: info.MemPageSize, Iteration: info.MemIteration,
		ConstantPages: info.MemConstant, NormalPages: info.MemNormal,
		PostCopyRequests: info.MemPostcopyReqs, AutoConvergeThrottle: info.AutoConvergeThrottle,
		Error: info.ErrorMessage,
	}
}

func milliseconds(n uint64) time.Duration { return time.Duration(n) * time.Millisecond }

// AbortJob aborts the job that runs on a domain (virDomainAbortJob). It returns when the hypervisor was told; the
// caller that started the job learns how the job ended. It returns ErrOperationInvalid if there is no job, or a
// migration in post-copy.
func (h *Host) AbortJob(ctx context.Context, uuid string) error {
	return h.runOnDomain(ctx, jobControlCall("aborting the job of domain "+uuid), uuid, "virDomainAbortJob",
		(*golibvirt.Domain).AbortJob)
}

// StartPostCopy switches a running migration that was started with PostCopy to post-copy
// (virDomainMigrateStartPostCopy). From then on the guest runs on the target and fetches the memory that is missing
// there; this can't be undone.
func (h *Host) StartPostCopy(ctx context.Context, uuid string) error {
	s := jobControlCall("switching the migration of domain " + uuid + " to post-copy")
	return h.runOnDomain(ctx, s, uuid, "virDomainMigrateStartPostCopy",
		func(d *golibvirt.Domain) error { return d.MigrateStartPostCopy(0) })
}

// SetMaxDowntime sets how long the guest may be paused at the end of a migration, before or during the migration;
// QEMU's default is 300 ms. libvirt counts in milliseconds.
func (h *Host) SetMaxDowntime(ctx context.Context, uuid string, d time.Duration) error {
	s := jobControlCall("setting the maximum downtime of domain " + uuid)
	return h.runOnDomain(ctx, s, uuid, "virDomainMigrateSetMaxDowntime", func(domain *golibvirt.Domain) error {
		return domain.MigrateSetMaxDowntime(uint64(max(d.Milliseconds(), 0)), 0)
	})
}

// SetMigrationBandwidth limits a migration to that many bytes per second, before or during it; with postCopy the limit
// is for the time after the switch to post-copy. libvirt counts in MiB, so the limit is rounded up to at least one. 0
// means no limit with postCopy, and is refused otherwise.
func (h *Host) SetMigrationBandwidth(ctx context.Context, uuid string, bytesPerSecond uint64, postCopy bool) error {
	var flags golibvirt.DomainMigrateMaxSpeedFlags
	if postCopy {
		flags = golibvirt.MIGRATE_MAX_SPEED_POSTCOPY
	}
	s := jobControlCall("limiting the migration of domain " + uuid)
	return h.runOnDomain(ctx, s, uuid, "virDomainMigrateSetMaxSpeed",
		func(d *golibvirt.Domain) error { return d.MigrateSetMaxSpeed(mebibytes(bytesPerSecond), flags) })
}

// mebibytes rounds up, so that a small limit doesn't become 0, no limit.
func mebibytes(bytes uint64) uint64 {
	const mebibyte = 1 << 20
	whole := bytes / mebibyte
	if bytes%mebibyte > 0 {
		whole++
	}
	return whole
}
