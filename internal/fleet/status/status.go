package status

// Domain states, as libvirt's virDomainState names them and KubeVirt spells them.
const (
	NoState      = "NoState"
	Running      = "Running"
	Blocked      = "Blocked"
	Paused       = "Paused"
	ShuttingDown = "ShuttingDown"
	Shutoff      = "Shutoff"
	Crashed      = "Crashed"
	PMSuspended  = "PMSuspended"
)

// Phases of a virtual machine's instance (VirtualMachineInstancePhase).
const (
	PhaseRunning   = "Running"
	PhaseSucceeded = "Succeeded"
	PhaseFailed    = "Failed"
	PhaseUnknown   = "Unknown"
)

// Phases lists every phase.
var Phases = []string{PhaseRunning, PhaseSucceeded, PhaseFailed, PhaseUnknown}

// Printed statuses of a virtual machine (VirtualMachinePrintableStatus).
const (
	StatusRunning   = "Running"
	StatusStopped   = "Stopped"
	StatusPaused    = "Paused"
	StatusMigrating = "Migrating"
	StatusStarting  = "Starting"
	StatusStopping  = "Stopping"
	// StatusFailed is a VM that crashed, couldn't be started, or lost a part of its memory in post-copy. KubeVirt prints
	// CrashLoopBackOff, because it starts such a VM again and again.
	StatusFailed  = "Failed"
	StatusUnknown = "Unknown"
)

// InstancePhase is KubeVirt's mapping of a domain's state and reason to the phase of its instance. A guest that was
// forced off although it is one that is asked first has failed, as there.
//
// Where KubeVirt keeps the phase that an instance had before, nothing is kept here: what a user reads follows from what
// is on the host. So a VM is
//   - Unknown when it is off for an unknown reason, as libvirt forgets it when
//     the daemon restarts (it was not seen to fail), when it was migrated away, or
//     when its host doesn't answer;
//   - Running as long as a migration that failed in post-copy can be resumed, Failed
//     when one of the two parts of its memory is gone;
//   - Failed when it could not be started (KubeVirt's instance would be Scheduled
//     still and be tried again), and when it has crashed in whatever way.
func InstancePhase(f Facts) string {
	if f.Host == "" {
		return PhaseUnknown
	}

	switch f.PostCopy() {
	case PostCopyLost:
		return PhaseFailed
	case PostCopyUndecided:
		return PhaseUnknown
	case PostCopyIntact, PostCopyInterrupted:
	}

	switch f.State {
	case Running, Blocked, Paused, PMSuspended, ShuttingDown:
		return PhaseRunning
	case Crashed:
		return PhaseFailed
	case Shutoff:
		if f.Reason == "Destroyed" && (f.AskedFirst || f.LostInPostCopy) {
			return PhaseFailed
		}

		return shutoffPhase(f.Reason)
	default:
		return PhaseUnknown
	}
}

// shutoffPhase is the phase by the reason alone.
func shutoffPhase(reason string) string {
	switch reason {
	case "Crashed", "Panicked", "Failed":
		return PhaseFailed
	case "Shutdown", "Destroyed", "Saved", "FromSnapshot":
		return PhaseSucceeded
	default:
		return PhaseUnknown
	}
}

// PrintableStatusOf is the status that KubeVirt prints for a virtual machine. A running migration outranks the domain's
// own state, as it does there. A VM that was forced off is Stopped, whatever its phase: it did not crash by itself.
func PrintableStatusOf(state, reason string, migrating bool) string {
	if migrating {
		return StatusMigrating
	}

	switch state {
	case Running, Blocked:
		return StatusRunning
	case Paused, PMSuspended:
		// With reason Migration it gets its memory: from a saved image, or from a VM that no run watches any more. Otherwise
		// it is migrating.
		if reason == "StartingUp" || reason == "Migration" {
			return StatusStarting
		}

		return StatusPaused
	case ShuttingDown:
		return StatusStopping
	case Crashed:
		return StatusFailed
	case Shutoff:
		if shutoffPhase(reason) == PhaseFailed {
			return StatusFailed
		}

		return StatusStopped
	default:
		return StatusUnknown
	}
}

// IsTransitional says that a VM with this status will have another one in a moment, whatever a user does.
func IsTransitional(status string) bool {
	switch status {
	case StatusMigrating, StatusStarting, StatusStopping:
		return true
	default:
		return false
	}
}
