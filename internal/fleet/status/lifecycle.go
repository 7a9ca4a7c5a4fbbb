package status

import (
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
		Status: conditionStatus(f.Active), Reason: ShownReason(f.State, f.Reason), Message: f.stateText(),
		Since: f.StartedSince, Layer: LayerLibvirt,
	}
}

// stateText says how the VM stands, in libvirt's words.
func (f Facts) stateText() string {
	return fmt.Sprintf("the domain is %s (%s) on host %q", f.State, ShownReason(f.State, f.Reason), f.Host)
}

// GuestRuns says that the guest executes, wherever it is on its way to. One whose post-copy failed doesn't: it stands
// still as soon as it touches memory that isn't there.
func (f Facts) GuestRuns() bool {
	return f.Active && (f.State == Running || f.State == Blocked) && f.PostCopy() == PostCopyIntact
}

// ReadyCriteria is what a user waits for before a VM counts as ready, besides that its guest runs.
type ReadyCriteria struct {
	// GuestAgent asks for a connected guest agent.
	GuestAgent bool
	// IPAddress is the key of an interface that must have an address.
	IPAddress string
}

// ReadyWith is the condition Ready: the guest runs, and nothing is missing that is needed. The message names all that
// is missing, the reason the first.
func ReadyWith(f Facts, n ReadyCriteria) Condition {
	missing := Missing(f, n)
	if len(missing) == 0 {
		return Condition{Type: Ready, Status: True, Reason: "GuestRunning", Layer: LayerLibvirt}
	}
	texts := make([]string, len(missing))
	for i, c := range missing {
		texts[i] = c.Message
	}
	first := missing[0]
	c := Condition{
		Type: Ready, Status: first.Status, Reason: first.Reason, Message: strings.Join(texts, ", "), Layer: first.Layer,
	}
	if len(missing) == 1 {
		c.Since = first.Since
	}
	return c
}

// Missing is what keeps a VM from being ready, the most fundamental first; nothing for one that is.
func Missing(f Facts, n ReadyCriteria) []Condition {
	var missing []Condition
	lacks := func(reason, message string, layer Layer) {
		missing = append(missing, Condition{Status: False, Reason: reason, Message: message, Layer: layer})
	}
	switch {
	case f.Host == "":
		return []Condition{f.unlocatedCondition()}
	case f.GuestRuns():
	case f.PostCopy() != PostCopyIntact && f.State == Running:
		lacks(ReasonPostcopyFailed, f.shortStateText()+": "+f.postCopyText(), LayerFleet)
	case f.State == Paused || f.State == PMSuspended:
		lacks(paused(f).Reason, f.shortStateText(), LayerLibvirt)
		missing[0].Since = f.PausedSince
	default:
		lacks(ReasonGuestNotRunning, f.shortStateText(), LayerLibvirt)
	}
	if n.GuestAgent && !f.AgentConnected {
		lacks("AgentNotConnected", "its guest agent is not connected", LayerQEMU)
	}
	if n.IPAddress != "" && len(f.Addresses[n.IPAddress]) == 0 {
		lacks("NoAddress", fmt.Sprintf("interface %q has no address", n.IPAddress), LayerLibvirt)
	}
	return missing
}

// shortStateText says how the VM stands, in few words.
func (f Facts) shortStateText() string {
	return fmt.Sprintf("it is %s (%s)", PrintableStatus(f), ShownReason(f.State, f.Reason))
}

// Reasons of the condition Paused. Those that aren't KubeVirt's are PausedBy and libvirt's reason.
const (
	PausedByUser             = "PausedByUser"
	PausedIOError            = "PausedIOError"
	PausedByMigrationMonitor = "PausedByMigrationMonitor"
	SuspendedByGuest         = "SuspendedByGuest"
)

// paused tells why a guest stands still. Unlike KubeVirt, which has no condition for the others, it has a reason for
// each that libvirt has.
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

// irrecoverable tells whether the guest can still be saved. A post-copy that failed leaves its memory on two hosts: as
// long as both have their part it can be resumed (the reason PostcopyInterrupted), without one of them it can't
// (PostcopyFailed). The run that began the migration resumes it until its deadline; after that it is given up, until an
// apply tries again.
func irrecoverable(f Facts) Condition {
	c := Condition{Status: True, Reason: ReasonPostcopyFailed, Layer: LayerFleet}
	var resumed string
	switch f.PostCopy() {
	case PostCopyIntact:
		return Condition{Status: False, Reason: "Recoverable", Layer: LayerFleet}
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
			resumed = ", and no run resumes it any more; the next apply tries once more"
		}
	}
	c.Message = f.postCopyReport(resumed)
	return c
}

// HostStatesText says what each host has of a VM that a broken migration left in parts.
func (f Facts) HostStatesText() string {
	texts := make([]string, 0, len(f.HostStates))
	for _, host := range slices.Sorted(maps.Keys(f.HostStates)) {
		texts = append(texts, fmt.Sprintf("host %q has it as %s", host, f.HostStates[host]))
	}
	return strings.Join(texts, ", ")
}

// twoCopies tells whether the VM runs on two hosts at the same time, and no migration explains that.
func twoCopies(f Facts) Condition {
	switch {
	case len(f.RunsOn) > 1:
		return Condition{
			Status: True, Reason: "RunsOnSeveralHosts", Layer: LayerFleet,
			Message: "it runs on these hosts at the same time, and both copies may write to its disks: " +
				strings.Join(f.RunsOn, ", ") + "; find out which copy is the right one, and destroy and undefine the other",
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

func staleDefinition(f Facts) Condition {
	switch {
	case len(f.StaleHosts) > 0:
		hosts := slices.Sorted(slices.Values(f.StaleHosts))
		return Condition{
			Status: True, Reason: "LeftoverDefinition", Since: f.StaleSince, Layer: LayerFleet,
			Message: "these hosts have a leftover definition of it: " + strings.Join(hosts, ", "),
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
