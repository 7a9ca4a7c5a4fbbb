package status_test

import (
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
)

func phaseOf(state, reason string) string {
	return status.InstancePhase(status.Facts{Host: "kvm1", State: state, Reason: reason})
}

func TestPhaseAndPrintable_followKubeVirt(t *testing.T) {
	t.Parallel()

	tests := []struct {
		state, reason, phase, printed string
	}{
		{status.Running, "Booted", "Running", "Running"},
		{status.Blocked, "Unknown", "Running", "Running"},
		{status.Paused, "User", "Running", "Paused"},
		{status.Paused, "IOError", "Running", "Paused"},
		{status.Paused, "PostcopyFailed", "Failed", "Paused"},
		{status.Paused, "StartingUp", "Running", "Starting"},
		{status.Paused, "Migration", "Running", "Starting"},
		{status.PMSuspended, "Unknown", "Running", "Paused"},
		{status.ShuttingDown, "User", "Running", "Stopping"},
		{status.Shutoff, "Shutdown", "Succeeded", "Stopped"},
		{status.Shutoff, "Destroyed", "Succeeded", "Stopped"},
		{status.Shutoff, "Saved", "Succeeded", "Stopped"},
		{status.Shutoff, "Crashed", "Failed", "Failed"},
		{status.Crashed, "Panicked", "Failed", "Failed"},
		{status.Crashed, "Unknown", "Failed", "Failed"},
		{status.Shutoff, "Failed", "Failed", "Failed"},
		{status.Shutoff, "FromSnapshot", "Succeeded", "Stopped"},
		{status.Shutoff, "Migrated", "Unknown", "Stopped"},
		// What libvirt forgot when the daemon restarted is not a crash.
		{status.Shutoff, "Unknown", "Unknown", "Stopped"},
		{status.NoState, "", "Unknown", "Unknown"},
	}

	for _, tt := range tests {
		t.Run(tt.state+"/"+tt.reason, func(t *testing.T) {
			t.Parallel()

			if got := phaseOf(tt.state, tt.reason); got != tt.phase {
				t.Errorf("InstancePhase = %q, want %q", got, tt.phase)
			}

			if got := status.PrintableStatusOf(tt.state, tt.reason, false); got != tt.printed {
				t.Errorf("Printable = %q, want %q", got, tt.printed)
			}

			if got := status.PrintableStatusOf(tt.state, tt.reason, true); got != status.StatusMigrating {
				t.Errorf("Printable while migrating = %q, want Migrating", got)
			}
		})
	}
}

// A guest that was forced off has failed where it would be asked first, and where half of its memory was elsewhere. It
// has not crashed, so that no run starts it again for that.
func TestInstancePhase_ofWhatWasForcedOff(t *testing.T) {
	t.Parallel()

	for want, all := range map[string][]status.Facts{
		status.PhaseFailed:    {{AskedFirst: true}, {LostInPostCopy: true}},
		status.PhaseSucceeded: {{}},
	} {
		for _, f := range all {
			f.Host, f.State, f.Reason = "kvm1", status.Shutoff, "Destroyed"
			phase, printed := status.InstancePhase(f), status.PrintableStatus(f)

			if phase != want || printed != status.StatusStopped {
				t.Errorf("%+v: phase %s, status %s", f, phase, printed)
			}

			if action := status.PowerAction(status.RerunOnFailure, printed, phase, f.Reason); action != status.None {
				t.Errorf("%+v: RerunOnFailure asks for %v", f, action)
			}
		}
	}
}

func TestPower_asksForWhatTheStrategyWants(t *testing.T) {
	t.Parallel()

	tests := []struct {
		name, strategy, state, reason string
		want                          status.Action
	}{
		{"stopped", status.Always, status.Shutoff, "Shutdown", status.Start},
		{"off for an unknown reason", status.Always, status.Shutoff, "Unknown", status.Start},
		{"crashed", status.Always, status.Crashed, "Panicked", status.Start},
		{"paused by a user", status.Always, status.Paused, "User", status.Resume},
		{"paused by an I/O error", status.Always, status.Paused, "IOError", status.None},
		{"post-copy failed", status.Always, status.Paused, "PostcopyFailed", status.None},
		{"stranded", status.Always, status.Paused, status.ReasonStranded, status.Resume},
		{"stranded", status.RerunOnFailure, status.Paused, status.ReasonStranded, status.Resume},
		{"stranded", status.Manual, status.Paused, status.ReasonStranded, status.Resume},
		{"stranded", status.Once, status.Paused, status.ReasonStranded, status.Resume},
		{"stranded", status.Halted, status.Paused, status.ReasonStranded, status.Stop},
		{"start interrupted", status.Always, status.Paused, status.ReasonStartInterrupted, status.Resume},
		{"start interrupted", status.Manual, status.Paused, status.ReasonStartInterrupted, status.Resume},
		{"start interrupted", status.Halted, status.Paused, status.ReasonStartInterrupted, status.Stop},
		{"restored to stay paused", status.Always, status.Paused, status.ReasonRestoredPaused, status.None},
		{"suspended by its guest", status.Always, status.PMSuspended, "Unknown", status.Wakeup},
		{"running", status.Always, status.Running, "Booted", status.None},
		{"shutting down", status.Always, status.ShuttingDown, "User", status.None},
		{"starting", status.Always, status.Paused, "StartingUp", status.None},

		{"stopped", status.RerunOnFailure, status.Shutoff, "Shutdown", status.None},
		{"crashed", status.RerunOnFailure, status.Shutoff, "Crashed", status.Start},
		{"off for an unknown reason", status.RerunOnFailure, status.Shutoff, "Unknown", status.None},
		{"post-copy failed", status.RerunOnFailure, status.Paused, "PostcopyFailed", status.None},

		{"running", status.Halted, status.Running, "Booted", status.Stop},
		{"paused", status.Halted, status.Paused, "User", status.Stop},
		{"stopped", status.Halted, status.Shutoff, "Shutdown", status.None},
		{"panicked and kept", status.Halted, status.Crashed, "Panicked", status.Stop},
		{"crashed and kept", status.Halted, status.Crashed, "Unknown", status.Stop},
		{"off after a crash", status.Halted, status.Shutoff, "Crashed", status.None},
		{"off after a failed start", status.Halted, status.Shutoff, "Failed", status.None},
		{"panicked and kept", status.Manual, status.Crashed, "Panicked", status.None},

		{"restart interrupted", status.Always, status.Shutoff, status.ReasonRestartInterrupted, status.Start},
		{"restart interrupted", status.RerunOnFailure, status.Shutoff, status.ReasonRestartInterrupted, status.Start},
		{"restart interrupted", status.Manual, status.Shutoff, status.ReasonRestartInterrupted, status.Start},
		{"restart interrupted", status.Once, status.Shutoff, status.ReasonRestartInterrupted, status.Start},
		{"restart interrupted", status.Halted, status.Shutoff, status.ReasonRestartInterrupted, status.None},
		{"restart lapsed", status.Always, status.Shutoff, status.ReasonRestartLapsed, status.Start},
		{"restart lapsed", status.RerunOnFailure, status.Shutoff, status.ReasonRestartLapsed, status.None},
		{"restart lapsed", status.Manual, status.Shutoff, status.ReasonRestartLapsed, status.None},

		{"stopped", status.Manual, status.Shutoff, "Shutdown", status.None},
		{"running", status.Manual, status.Running, "Booted", status.None},
		{"crashed", status.Once, status.Shutoff, "Crashed", status.None},
		{"running, unmanaged", "", status.Running, "Booted", status.None},
	}

	for _, tt := range tests {
		t.Run(tt.strategy+"/"+tt.name, func(t *testing.T) {
			t.Parallel()

			got := status.PowerAction(tt.strategy, status.PrintableStatusOf(tt.state, tt.reason, false),
				phaseOf(tt.state, tt.reason), status.ShownReason(tt.state, tt.reason))
			if got != tt.want {
				t.Errorf("Power = %v, want %v", got, tt.want)
			}
		})
	}
}

// An import must not change what it finds: the observed strategy asks for nothing, whatever the VM is doing.
func TestObserved_asksForNothing(t *testing.T) {
	t.Parallel()

	for _, state := range []string{status.Running, status.Paused, status.Shutoff, status.Crashed, status.PMSuspended} {
		for _, autostart := range []bool{true, false} {
			active := state != status.Shutoff && state != status.Crashed
			printed := status.PrintableStatusOf(state, "User", false)
			strategy := status.ObservedRunStrategy(active, printed == status.StatusPaused, autostart)

			action := status.PowerAction(strategy, printed, phaseOf(state, "User"), status.ShownReason(state, "User"))
			if action != status.None {
				t.Errorf("%s, autostart %v: strategy %s asks for %v", state, autostart, strategy, action)
			}

			if on, managed := status.Autostart(strategy); managed && on != autostart {
				t.Errorf("%s, autostart %v: strategy %s would change autostart", state, autostart, strategy)
			}
		}
	}
}
