package status

// Run strategies, with KubeVirt's names. With an empty strategy, the provider doesn't manage the VM's power.
const (
	Always         = "Always"
	RerunOnFailure = "RerunOnFailure"
	Manual         = "Manual"
	Halted         = "Halted"
	Once           = "Once"
)

// RunStrategies lists every run strategy, in the order of the documentation.
var RunStrategies = []string{Always, RerunOnFailure, Manual, Halted, Once}

// Action is what the provider has to do so that a virtual machine's power is as its run strategy requires.
type Action int

// Power actions.
const (
	// None leaves the VM as it is.
	None Action = iota
	// Start boots a stopped or crashed VM.
	Start
	// Resume continues a paused VM.
	Resume
	// Wakeup wakes a VM whose guest suspended it.
	Wakeup
	// Stop shuts the guest down.
	Stop
)

// PowerAction returns the action that a run strategy requires for a VM that was last seen with this printed status,
// phase and reason of its domain state. These three are in Terraform's state, so that the apply can compute the action
// of its plan again, and refuse another one.
//
// A VM that libvirt, QEMU or a failure paused (an I/O error, a failed migration, a watchdog) is reported and not
// resumed: that could damage its data.
//
// A VM that an interrupted move left paused is resumed with every strategy but Halted: its guest ran before the move.
//
// A VM that an interrupted start from saved memory has left paused is resumed with every strategy but Halted: the run
// that started it would have done so.
//
// A VM that an interrupted restart has left off is started with every strategy but Halted: its guest ran before.
//
// A VM whose migration failed in post-copy isn't changed either: its migration options decide whether it is resumed or
// ended.
func PowerAction(strategy, status, phase, reason string) Action {
	switch {
	case reason == ReasonPostcopyFailed:
		return None
	case (reason == ReasonStranded || reason == ReasonStartInterrupted) && status == StatusPaused && strategy != Halted:
		return Resume
	case reason == ReasonRestartInterrupted && strategy != Halted:
		return Start
	}

	switch strategy {
	case Always:
		return alwaysOn(status, reason)
	case RerunOnFailure:
		if phase == PhaseFailed && status == StatusFailed {
			return Start
		}
	case Halted:
		switch {
		case status == StatusRunning, status == StatusPaused, status == StatusFailed && keptCrashed(reason):
			return Stop
		}
	}

	return None
}

// keptCrashed reports whether a VM whose status is Failed still has its QEMU process, with its guest's memory and its
// disks: its guest has crashed, and on_crash is preserve. libvirt has other reasons for a VM that is off after a crash
// or after a failed start, and no status is Failed that is off for an unknown reason.
func keptCrashed(reason string) bool { return reason == "Panicked" || reason == "Unknown" }

func alwaysOn(status, reason string) Action {
	switch status {
	case StatusStopped, StatusFailed:
		return Start
	case StatusPaused:
		switch reason {
		case reasonSuspended:
			return Wakeup
		case "User", "Unknown", "FromSnapshot":
			return Resume
		}
	}

	return None
}

// reasonSuspended is the status reason of a VM whose guest suspended it (libvirt's VIR_DOMAIN_PMSUSPENDED, whose own
// reason is always unknown).
const reasonSuspended = "PMSuspended"

// ReasonStranded is the status reason of a VM whose guest is paused at the source of a migration that is over, because
// its run was lost at the switchover. Only the source has the VM.
const ReasonStranded = "MigrationInterrupted"

// ReasonRestoredPaused is the status reason of a VM whose guest is paused as for a migration while its host runs no job
// on it. libvirt can't tell a VM whose memory was restored and left paused from one half of a migration that was lost
// at the handover, so no run resumes it.
const ReasonRestoredPaused = "Restore"

// ReasonStartInterrupted is the status reason of a VM whose memory was saved to stay paused, and whose start by a run
// was interrupted before that run resumed it.
const ReasonStartInterrupted = "StartInterrupted"

// ReasonRestartInterrupted is the status reason of a VM that an update shut down to restart it, and didn't start.
// ReasonRestartLapsed is that of a VM of which this isn't certain any more, so that a run strategy which leaves it off
// leaves it off: a user may have shut it down since.
const (
	ReasonRestartInterrupted = "RestartInterrupted"
	ReasonRestartLapsed      = "RestartLapsed"
)

// ReasonPostcopyFailed is the status reason of a VM whose migration failed in post-copy. On the target, the VM runs
// with the memory that has arrived; at the source, it is paused.
const ReasonPostcopyFailed = "PostcopyFailed"

// ReasonPostcopyInterrupted is the reason of Irrecoverable while both hosts still have their part of the guest's
// memory, so that an apply can resume the migration.
const ReasonPostcopyInterrupted = "PostcopyInterrupted"

// ShownReason returns the status reason that users see: the domain state's own, or this package's if libvirt's says
// nothing.
func ShownReason(state, reason string) string {
	if state == PMSuspended {
		return reasonSuspended
	}

	return reason
}

// StartsOnCreate reports whether a new VM with this run strategy is started once it is defined.
func StartsOnCreate(strategy string) bool {
	switch strategy {
	case Always, RerunOnFailure, Once:
		return true
	default:
		return false
	}
}

// RestartsCrashed reports whether a new VM with this run strategy is restarted at once when its guest crashes, without
// an apply.
func RestartsCrashed(strategy string) bool { return strategy == Always || strategy == RerunOnFailure }

// Autostart reports whether the host should start the VM when it boots, and whether the strategy manages that setting.
func Autostart(strategy string) (autostart, managed bool) {
	switch strategy {
	case Always:
		return true, true
	case Halted:
		return false, true
	default:
		return false, false
	}
}

// ObservedRunStrategy returns the run strategy that describes an existing VM without changing it. It is the default for
// a VM that is imported without a recorded strategy.
func ObservedRunStrategy(active, paused, autostart bool) string {
	switch {
	case active && !paused && autostart:
		return Always
	case !active && !autostart:
		return Halted
	default:
		return Manual
	}
}
