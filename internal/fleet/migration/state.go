package migration

import (
	"fmt"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// Phases of a migration, as KubeVirt names them.
const (
	// PhasePending: the migration waits for other migrations to end, because only so many VMs may move at a time.
	PhasePending = "Pending"
	// PhaseScheduling: a target is being chosen. PhaseScheduled: it was chosen.
	PhaseScheduling      = "Scheduling"
	PhaseScheduled       = "Scheduled"
	PhasePreparingTarget = "PreparingTarget"
	// PhaseTargetReady: a QEMU on the target waits for the memory.
	PhaseTargetReady = "TargetReady"
	PhaseRunning     = "Running"
	PhaseSucceeded   = "Succeeded"
	PhaseFailed      = "Failed"
)

// Methods of a move.
const (
	// MethodLive moves memory. Both hosts reach the storage.
	MethodLive = "LiveMigration"
	// MethodBlock moves memory and the contents of disks.
	MethodBlock = "BlockMigration"
	// MethodCold moves the definition of a stopped VM.
	MethodCold = "ColdMigration"
)

// Planes say in which part a migration failed.
const (
	// PlaneControl is all preparation: preflight, the target, permission.
	PlaneControl = "control"
	// PlaneData is the copying itself: no convergence, a lost link, a QEMU that died.
	PlaneData = "data"
)

// Statuses of an abort. "" means that none was requested.
const (
	AbortAborting  = "Aborting"
	AbortSucceeded = "Succeeded"
	// AbortFailed: the abort came too late: the VM is on the target.
	AbortFailed = "Failed"
)

// State is the state of a migration, with the names of KubeVirt's VirtualMachineInstanceMigrationState.
type State struct {
	SourceHost, TargetHost string
	// Start and End are zero before the migration has begun or ended.
	Start, End time.Time
	// Phase is one of the phases, Method one of the methods. Mode is "" for a stopped VM.
	Phase, Method string
	Mode          Mode
	// Transport is the transport in use, or the last one used. It is "" before one is chosen, and for a stopped VM.
	Transport string
	// Completed says whether the migration has ended, Failed whether it ended without moving the VM.
	Completed, Failed bool
	// FailureReason is a sentence, FailurePlane one of the planes.
	FailureReason, FailurePlane string
	AbortRequested              bool
	AbortStatus                 string
	// Recovered says whether the migration broke in post-copy, was resumed and succeeded.
	Recovered bool
	// Statistics are the job's last ones. After the end they have the measured downtime.
	Statistics libvirt.Job
}

// FailedError is the error of a migration that did not move the VM, or may not have moved it.
type FailedError struct {
	State State
	// Where says where the VM is now, as a sentence.
	Where string
	// Left lists the files that were made on the target and could not be removed, or must not be removed while it is
	// unknown where the VM is, and those that may be made yet, because their creation was not answered.
	Left []string
	// Err is the hosts' error.
	Err error
}

// Error describes what happened, where the VM is and how far the migration came.
func (e *FailedError) Error() string {
	text := fmt.Sprintf("migration from host %q to host %q failed (%s plane): %s; %s", e.State.SourceHost,
		e.State.TargetHost, e.State.FailurePlane, e.State.FailureReason, e.Where)
	s := e.State.Statistics
	if s.Disk.Total > 0 {
		text += fmt.Sprintf("; last seen after %v: %s of %s of the disks remained", s.Elapsed.Round(time.Millisecond),
			domain.FormatProgress(s.Disk.Remaining), domain.FormatProgress(s.Disk.Total))
	}
	if s.Memory.Total > 0 {
		text += fmt.Sprintf("; last seen after %v: %s of %s remained, copied at %s/s in iteration %d",
			s.Elapsed.Round(time.Millisecond), domain.FormatProgress(s.Data.Remaining), domain.FormatProgress(s.Data.Total),
			domain.FormatProgress(s.MemoryRate),
			s.Iteration)
		if rate := s.DirtyRate * s.PageSize; rate > 0 {
			text += fmt.Sprintf(", while the guest wrote %s/s", domain.FormatProgress(rate))
		}
	}
	return text
}

// Unwrap returns the hosts' error.
func (e *FailedError) Unwrap() error { return e.Err }
