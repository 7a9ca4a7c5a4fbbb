package status

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

func connected(f Facts) Condition {
	return Condition{
		Status: True, Reason: "HostAnswers", Message: fmt.Sprintf("host %q answers and has the VM", f.Host),
		Layer: LayerConnection,
	}
}

func defined(f Facts) Condition {
	if !f.Persistent {
		return Condition{
			Status: False, Reason: "Transient", Message: "it has no persistent definition, and is gone once it stops",
			Layer: LayerLibvirt,
		}
	}
	return Condition{Status: True, Reason: "Persistent", Layer: LayerLibvirt}
}

func started(f Facts) Condition {
	return Condition{
		Status: conditionStatus(f.Active), Reason: f.shownReason(), Message: f.stateText(),
		Since: f.StartedSince, Layer: LayerLibvirt,
	}
}

// stateText describes the domain's state with libvirt's names.
func (f Facts) stateText() string {
	return fmt.Sprintf("the domain is %s (%s) on host %q", f.State, f.shownReason(), f.Host)
}

// shownReason returns the status reason that users see.
func (f Facts) shownReason() string { return ShownReason(f.State, cmp.Or(f.RestartReason, f.Reason)) }

// GuestRuns reports whether the guest executes, also during a migration. A guest whose post-copy failed doesn't: it
// stops as soon as it accesses memory that is missing.
func (f Facts) GuestRuns() bool {
	return f.Active && (f.State == Running || f.State == Blocked) && f.PostCopy() == PostCopyIntact
}

// shortStateText describes the VM's state briefly.
func (f Facts) shortStateText() string {
	return fmt.Sprintf("it is %s (%s)", PrintableStatus(f), f.shownReason())
}

// Reasons of the condition Paused. Reasons that KubeVirt doesn't have consist of PausedBy and libvirt's reason.
const (
	PausedByUser             = "PausedByUser"
	PausedIOError            = "PausedIOError"
	PausedByMigrationMonitor = "PausedByMigrationMonitor"
	SuspendedByGuest         = "SuspendedByGuest"
)

// paused returns why a guest is paused. KubeVirt has this condition only for some of libvirt's reasons; here every
// reason of libvirt has one.
func paused(f Facts) Condition {
	c := Condition{Status: True, Message: f.stateText(), Since: f.PausedSince, Layer: LayerLibvirt}
	switch {
	case f.State == PMSuspended:
		c.Reason = SuspendedByGuest
	case f.State != Paused:
		c.Status, c.Reason, c.Since = False, "NotPaused", time.Time{}
	case f.Reason == "User":
		c.Reason = PausedByUser
	case f.Reason == "IOError":
		c.Reason = PausedIOError
		c.Message += f.failedDisks()
	case f.Reason == "Migration" && f.MigrationSource:
		c.Reason = PausedByMigrationMonitor
	default:
		c.Reason = "PausedBy" + f.Reason
	}
	return c
}

// failedDisks names the disks that have an error.
func (f Facts) failedDisks() string {
	var failed []string
	if f.Disks.Value != nil {
		for _, d := range *f.Disks.Value {
			if d.Ready == False {
				failed = append(failed, fmt.Sprintf("disk %q: %s", d.Key, d.Why))
			}
		}
	}
	if len(failed) == 0 {
		return ""
	}
	return "; " + strings.Join(failed, "; ")
}

// irrecoverable returns whether the guest is lost. After a failed post-copy, the guest's memory is on two hosts: while
// both have their part, the migration can be resumed (the reason PostcopyInterrupted); without one of them it can't
// (PostcopyFailed), unless the source has sent its part as a whole. The run that began the migration tries to resume it
// until its deadline; after that, the next apply tries again.
func irrecoverable(f Facts) Condition {
	c := Condition{Status: True, Reason: ReasonPostcopyFailed, Layer: LayerFleet}
	var resumed string
	switch f.PostCopy() {
	case PostCopyIntact:
		return Condition{Status: False, Reason: "Recoverable", Layer: LayerFleet}
	case PostCopySent:
		return Condition{Status: False, Reason: "Recoverable", Message: f.PostCopyReport(), Layer: LayerFleet}
	case PostCopyUndecided:
		c.Status = Unknown
	case PostCopyLost:
	case PostCopyInterrupted:
		c.Reason = ReasonPostcopyInterrupted
		switch {
		case f.Resumer.Value == nil:
			c.Status = Unknown
			resumed = ", and whether a run resumes it is not known: " + f.Resumer.Why
		case *f.Resumer.Value != "":
			c.Status = False
			resumed = ", and it is not given up: " + *f.Resumer.Value
		default:
			resumed = ", and no run resumes it any more; the next run tries once more"
		}
	}
	c.Message = f.postCopyReport(resumed)
	return c
}

// HostStatesText describes what each host has of a VM whose failed migration left it on several hosts.
func (f Facts) HostStatesText() string {
	texts := make([]string, 0, len(f.HostStates))
	for _, host := range slices.Sorted(maps.Keys(f.HostStates)) {
		texts = append(texts, fmt.Sprintf("host %q has it as %s", host, f.HostStates[host]))
	}
	return strings.Join(texts, ", ")
}

// twoCopies returns whether the VM runs on two hosts at the same time without a migration, under one UUID or two.
func twoCopies(f Facts) Condition {
	switch {
	case len(f.RunsOn) > 1:
		return Condition{
			Status: True, Reason: "RunsOnSeveralHosts", Layer: LayerFleet,
			Message: "it runs on these hosts at the same time, and both copies may write to its disks: " +
				strings.Join(f.RunsOn, ", ") + "; find out which copy is the right one, and destroy and undefine the other",
		}
	case len(f.Doubles) > 0:
		return Condition{
			Status: True, Reason: "SameNameAndDisk", Layer: LayerFleet,
			Message: "another VM runs under its name and writes to its disk: " + doublesText(f.Doubles) +
				"; find out which one is the right one, and destroy and undefine the other",
		}
	case len(f.SilentHosts) > 0:
		return Condition{
			Status: Unknown, Reason: ReasonHostUnreachable, Layer: LayerFleet,
			Message: "these hosts don't answer: " + strings.Join(f.SilentHosts, ", "),
		}
	default:
		return Condition{Status: False, Reason: "OneCopy", Layer: LayerFleet}
	}
}

func doublesText(doubles []Double) string {
	texts := make([]string, len(doubles))
	for i, d := range doubles {
		texts[i] = fmt.Sprintf("UUID %s on host %q (disk %q)", d.UUID, d.Host, d.Disk)
	}
	return strings.Join(texts, ", ")
}

func staleDefinition(f Facts) Condition {
	switch {
	case len(f.StaleHosts) > 0:
		hosts := slices.Sorted(slices.Values(f.StaleHosts))
		return Condition{
			Status: True, Reason: "StaleDefinition", Since: f.StaleSince, Layer: LayerFleet,
			Message: "these hosts have a stale definition of it: " + strings.Join(hosts, ", "),
		}
	case len(f.SilentHosts) > 0:
		return Condition{
			Status: Unknown, Reason: ReasonHostUnreachable, Layer: LayerFleet,
			Message: "these hosts don't answer: " + strings.Join(f.SilentHosts, ", "),
		}
	default:
		return Condition{Status: False, Reason: "OneDefinition", Layer: LayerFleet}
	}
}
