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
	// StatusFailed is the status of a VM that crashed, couldn't be started, or lost a part of its memory in post-copy.
	// KubeVirt prints CrashLoopBackOff, because it starts such a VM repeatedly.
	StatusFailed  = "Failed"
	StatusUnknown = "Unknown"
)

// InstancePhase maps a domain's state and reason to the phase of KubeVirt's instance. As in KubeVirt, a VM that was
// destroyed has failed if its guest should have been asked to shut down first.
//
// KubeVirt sometimes keeps the previous phase of an instance. This function doesn't: the phase follows only from what
// is on the host. So a VM is
//   - Unknown if it is off for an unknown reason (libvirt forgets the reason when the daemon restarts, so that the VM
//     was not seen to fail), if it was migrated away, or if its host doesn't answer;
//   - Running while a migration that failed in post-copy can be resumed, or if the source has sent all of the memory;
//     and Failed if one of the two parts of its memory is lost;
//   - Failed if it could not be started (KubeVirt's instance would still be Scheduled, and be started again), and if it
//     has crashed in any way.
func InstancePhase(f Facts) string {
	if f.Host == "" {
		return PhaseUnknown
	}

	switch f.PostCopy() {
	case PostCopyLost:
		return PhaseFailed
	case PostCopyUndecided:
		return PhaseUnknown
	case PostCopyIntact, PostCopyInterrupted, PostCopySent:
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

// shutoffPhase returns the phase of a VM that is off, by the reason alone.
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

// PrintableStatusOf returns the status that KubeVirt prints for a virtual machine. As in KubeVirt, a running migration
// takes precedence over the domain's own state. A VM that was destroyed is Stopped, whatever its phase: it did not
// crash.
func PrintableStatusOf(state, reason string, migrating bool) string {
	if migrating {
		return StatusMigrating
	}

	switch state {
	case Running, Blocked:
		return StatusRunning
	case Paused, PMSuspended:
		// With the reason Migration, the VM is loading its memory: from a saved image, or in a migration that no run watches
		// any more. Any other migration is handled above.
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

// IsTransitional reports whether a VM with this status will soon have another one, whatever a user does.
func IsTransitional(status string) bool {
	switch status {
	case StatusMigrating, StatusStarting, StatusStopping:
		return true
	default:
		return false
	}
}
