package status

// Run strategies, with KubeVirt's names. An empty strategy manages no power.
const (
	Always         = "Always"
	RerunOnFailure = "RerunOnFailure"
	Manual         = "Manual"
	Halted         = "Halted"
	Once           = "Once"
)

// RunStrategies lists every run strategy, in the order the documentation shows.
var RunStrategies = []string{Always, RerunOnFailure, Manual, Halted, Once}

// Action is what has to happen for a virtual machine's power to be what its run strategy asks for.
type Action int

// Power actions.
const (
	// None leaves the VM as it is.
	None Action = iota
	// Start boots a stopped or crashed VM.
	Start
	// Resume continues a paused VM.
	Resume
	// Wakeup brings a VM back that its guest suspended.
	Wakeup
	// Stop shuts the guest down.
	Stop
)

// PowerAction says what a run strategy asks for, given what the VM was last seen doing: its printed status, phase and
// the reason of its domain state. These three are in Terraform's state, so that the plan and the apply that follows it
// reach the same answer.
//
// A VM that is paused for a reason of its own (an I/O error, a failed migration, a watchdog) is reported and left
// alone: continuing it blindly could damage its data.
//
// So is a VM whose migration failed in post-copy: it is resumed or ended as its migration options say, which is not a
// matter of power.
func PowerAction(strategy, status, phase, reason string) Action {
	if reason == ReasonPostcopyFailed {
		return None
	}

	switch strategy {
	case Always:
		return alwaysOn(status, reason)
	case RerunOnFailure:
		if phase == PhaseFailed && status == StatusFailed {
			return Start
		}
	case Halted:
		switch status {
		case StatusRunning, StatusPaused:
			return Stop
		}
	}

	return None
}

func alwaysOn(status, reason string) Action {
	switch status {
	case StatusStopped, StatusFailed:
		return Start
	case StatusPaused:
		switch reason {
		case ReasonSuspended:
			return Wakeup
		case "User", "Unknown", "FromSnapshot", ReasonStranded:
			return Resume
		}
	}

	return None
}

// ReasonSuspended is the status reason of a VM whose guest went to sleep (libvirt's VIR_DOMAIN_PMSUSPENDED, whose own
// reason is always unknown).
const ReasonSuspended = "PMSuspended"

// ReasonStranded is the status reason of a VM whose guest stands still at the source of a migration that is over,
// because whoever ran it was lost when the guest was to be handed over. Nothing has it but the source.
const ReasonStranded = "MigrationInterrupted"

// ReasonPostcopyFailed is the status reason of a VM whose migration broke in post-copy: on the target it runs, as far
// as it has its memory; at the source it is paused.
const ReasonPostcopyFailed = "PostcopyFailed"

// ReasonPostcopyInterrupted is the reason of Irrecoverable while both hosts still have their part of the guest's
// memory, so that an apply can resume the migration.
const ReasonPostcopyInterrupted = "PostcopyInterrupted"

// ShownReason is the status reason shown to people: the domain state's own, except where libvirt has none that says
// anything.
func ShownReason(state, reason string) string {
	if state == PMSuspended {
		return ReasonSuspended
	}

	return reason
}

// StartsOnCreate says whether a new VM with this run strategy is started once it is defined.
func StartsOnCreate(strategy string) bool {
	switch strategy {
	case Always, RerunOnFailure, Once:
		return true
	default:
		return false
	}
}

// RestartsCrashed says whether a new VM with this run strategy is started again at once when its guest crashes, without
// waiting for an apply.
func RestartsCrashed(strategy string) bool { return strategy == Always || strategy == RerunOnFailure }

// Autostart says whether the host should start the VM when it boots, and whether the strategy has an opinion on it at
// all.
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

// ObservedRunStrategy is the run strategy that describes an existing VM without changing it: the one to assume when a
// VM is imported and no user recorded its strategy.
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
