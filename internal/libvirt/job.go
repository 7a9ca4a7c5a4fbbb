package libvirt

import (
	"context"
	"time"

	golibvirt "libvirt.org/go/libvirt"
)

// JobType says how a job stands.
type JobType int

// The types of jobs, numbered as libvirt numbers them.
const (
	JobNone JobType = iota
	// JobBounded runs and knows how long it will take.
	JobBounded
	// JobUnbounded runs and doesn't know, as a migration.
	JobUnbounded
	// JobCompleted has ended well.
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

// String names the type, "Unknown" for one that this version doesn't know.
func (t JobType) String() string { return nameAt(jobTypeNames[:], int(t)) }

// Active reports whether the job still runs.
func (t JobType) Active() bool { return t == JobBounded || t == JobUnbounded }

// The operations of a Job that others ask about.
const (
	OperationSave         = "Save"
	OperationDump         = "Dump"
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
	golibvirt.DOMAIN_JOB_OPERATION_SNAPSHOT:        "Snapshot",
	golibvirt.DOMAIN_JOB_OPERATION_SNAPSHOT_REVERT: "SnapshotRevert",
	golibvirt.DOMAIN_JOB_OPERATION_DUMP:            OperationDump,
	golibvirt.DOMAIN_JOB_OPERATION_BACKUP:          OperationBackup,
	golibvirt.DOMAIN_JOB_OPERATION_SNAPSHOT_DELETE: "SnapshotDelete",
}

// Transfer counts bytes that a job has to move. Remaining may grow while the guest writes to its memory, and Processed
// may exceed Total because memory that was written to is sent again.
type Transfer struct{ Total, Processed, Remaining uint64 }

// Job is what libvirt knows about a domain's job: a migration, a backup, a save. What it doesn't report is 0.
type Job struct {
	Type JobType
	// Operation is what is being done: OperationMigrationOut, OperationBackup, ...
	Operation string
	// Elapsed is the time since the start.
	Elapsed time.Duration
	// Downtime is how long the guest stands still: the measured one of a completed migration, else QEMU's estimate.
	Downtime time.Duration
	// SetupTime is what the migration took before it began to copy.
	SetupTime time.Duration
	// Data is Memory and Disk together.
	Data, Memory, Disk Transfer
	// MemoryRate and DiskRate are in bytes per second, over the last moments.
	MemoryRate, DiskRate uint64
	// DirtyRate is how fast the guest writes to its memory, in pages of PageSize bytes per second. It is known from the
	// second iteration on.
	DirtyRate uint64
	PageSize  uint64
	// Iteration counts the passes over the memory, the present one included.
	Iteration uint64
	// ConstantPages were all of one byte and sent as that; NormalPages were sent in full.
	ConstantPages, NormalPages uint64
	// PostCopyRequests counts the pages that the guest had to wait for after the switch to post-copy.
	PostCopyRequests uint64
	// AutoConvergeThrottle is by how many percent auto-converge slows the guest down.
	AutoConvergeThrottle int
	// Error is libvirt's message about a job that failed, where it has one.
	Error string
}

// monitorCall describes a call that asks the hypervisor process and changes nothing.
func monitorCall(operation string) callSpec {
	return callSpec{operation: operation, lane: slow, timeout: readTimeout, repeat: true, late: ErrBusy}
}

// jobControlCall describes a call that steers a job that is under way.
func jobControlCall(operation string) callSpec {
	return callSpec{operation: operation, lane: slow, timeout: readTimeout, late: ErrBusy, writes: true}
}

// Job reads the statistics of the job that runs on a domain (virDomainGetJobStats); nil says that none does. Of a
// migration only its source knows them: of the domain that is on its way in they are ErrUnsupported.
func (h *Host) Job(ctx context.Context, uuid string) (*Job, error) {
	return h.readJob(ctx, uuid, 0)
}

// CompletedJob reads the statistics of the last job that ended on a domain, nil when there was none since its start.
// After a migration the target has them, with the downtime that was measured; after a failed one the source.
func (h *Host) CompletedJob(ctx context.Context, uuid string) (*Job, error) {
	// Without KEEP reading them would forget them.
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

// AbortJob aborts the job that runs on a domain (virDomainAbortJob). It returns when the hypervisor was told; whoever
// started the job learns how it ended. Without a job, and for a migration that is in post-copy, it is
// ErrOperationInvalid.
func (h *Host) AbortJob(ctx context.Context, uuid string) error {
	return h.runOnDomain(ctx, jobControlCall("aborting the job of domain "+uuid), uuid, "virDomainAbortJob",
		(*golibvirt.Domain).AbortJob)
}

// StartPostCopy switches a running migration that was started with PostCopy over (virDomainMigrateStartPostCopy): the
// guest runs on the target from then on and fetches what it lacks, and there is no way back.
func (h *Host) StartPostCopy(ctx context.Context, uuid string) error {
	s := jobControlCall("switching the migration of domain " + uuid + " to post-copy")
	return h.runOnDomain(ctx, s, uuid, "virDomainMigrateStartPostCopy",
		func(d *golibvirt.Domain) error { return d.MigrateStartPostCopy(0) })
}

// SetMaxDowntime says how long the guest may stand still at the end of a migration; QEMU takes 300 ms by itself. It is
// allowed before and during a migration. libvirt counts in milliseconds.
func (h *Host) SetMaxDowntime(ctx context.Context, uuid string, d time.Duration) error {
	s := jobControlCall("setting the maximum downtime of domain " + uuid)
	return h.runOnDomain(ctx, s, uuid, "virDomainMigrateSetMaxDowntime", func(domain *golibvirt.Domain) error {
		return domain.MigrateSetMaxDowntime(uint64(max(d.Milliseconds(), 0)), 0)
	})
}

// SetMigrationBandwidth limits a migration to that many bytes per second, before or during it; with postCopy the limit
// is for what comes after the switch to post-copy. libvirt counts in MiB, so it is rounded up to one; 0 is no limit
// for post-copy and refused for the rest.
func (h *Host) SetMigrationBandwidth(ctx context.Context, uuid string, bytesPerSecond uint64, postCopy bool) error {
	var flags golibvirt.DomainMigrateMaxSpeedFlags
	if postCopy {
		flags = golibvirt.MIGRATE_MAX_SPEED_POSTCOPY
	}
	s := jobControlCall("limiting the migration of domain " + uuid)
	return h.runOnDomain(ctx, s, uuid, "virDomainMigrateSetMaxSpeed",
		func(d *golibvirt.Domain) error { return d.MigrateSetMaxSpeed(mebibytes(bytesPerSecond), flags) })
}

// mebibytes rounds up, so that a small limit doesn't become none.
func mebibytes(bytes uint64) uint64 {
	const mebibyte = 1 << 20
	whole := bytes / mebibyte
	if bytes%mebibyte > 0 {
		whole++
	}
	return whole
}
