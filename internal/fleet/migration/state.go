package migration

import (
	"fmt"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// Phases of a migration, as KubeVirt names them.
const (
	// PhasePending waits for others to be through, where only so many may move at a time.
	PhasePending = "Pending"
	// PhaseScheduling looks for a target, PhaseScheduled has one.
	PhaseScheduling      = "Scheduling"
	PhaseScheduled       = "Scheduled"
	PhasePreparingTarget = "PreparingTarget"
	// PhaseTargetReady has a QEMU on the target that waits for the memory.
	PhaseTargetReady = "TargetReady"
	PhaseRunning     = "Running"
	PhaseSucceeded   = "Succeeded"
	PhaseFailed      = "Failed"
)

// Methods say what is moved.
const (
	// MethodLive moves memory; the storage is reached by both hosts.
	MethodLive = "LiveMigration"
	// MethodBlock moves memory and the disks' content.
	MethodBlock = "BlockMigration"
	// MethodCold moves the definition of a VM that is off.
	MethodCold = "ColdMigration"
)

// Planes say what a migration failed at.
const (
	// PlaneControl is everything that prepares: preflight, the target, permission.
	PlaneControl = "control"
	// PlaneData is the copying itself: no convergence, a lost link, a QEMU that died.
	PlaneData = "data"
)

// Statuses of an abort. "" is that none was requested.
const (
	AbortAborting  = "Aborting"
	AbortSucceeded = "Succeeded"
	// AbortFailed: it came too late, the VM is on the target.
	AbortFailed = "Failed"
)

// State is how a migration stands, with the names of KubeVirt's VirtualMachineInstanceMigrationState.
type State struct {
	SourceHost, TargetHost string
	// Start and End are zero while it has not begun or ended.
	Start, End time.Time
	// Phase is one of the phases, Method one of the methods. Mode is "" for a VM that is off.
	Phase, Method string
	Mode          Mode
	// Transport is the one that is used, or was used last; "" before there is one and for a VM that is off.
	Transport string
	// Completed says that it has ended, Failed that it did so without moving the VM.
	Completed, Failed bool
	// FailureReason is a sentence, FailurePlane one of the planes.
	FailureReason, FailurePlane string
	AbortRequested              bool
	AbortStatus                 string
	// Recovered says that it broke in post-copy, was resumed and succeeded.
	Recovered bool
	// Statistics are the last ones of the job; once it has completed, with the downtime that was measured.
	Statistics libvirt.Job
}

// FailedError is a migration that did not move the VM, or of which it is unknown whether it did.
type FailedError struct {
	State State
	// Where says where the VM is now, as a sentence.
	Where string
	// Left are the files that were made on the target and could not be removed from there, or must not be as long as
	// it is unknown where the VM is.
	Left []string
	// Err is what the hosts said.
	Err error
}

// Error tells what happened, where the VM is and how far it came.
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

// Unwrap returns what the hosts said.
func (e *FailedError) Unwrap() error { return e.Err }
