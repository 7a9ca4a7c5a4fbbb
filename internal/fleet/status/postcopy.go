package status

import (
	"fmt"
	"slices"
	"strings"
)

// PostCopyVerdict says what is left of a guest whose migration failed in post-copy.
type PostCopyVerdict string

// The verdicts.
const (
	// PostCopyIntact is the verdict on every guest whose migration didn't fail in post-copy.
	PostCopyIntact PostCopyVerdict = ""
	// PostCopyInterrupted means that source and target still have their parts of the memory: the migration can be resumed.
	PostCopyInterrupted PostCopyVerdict = "Interrupted"
	// PostCopyLost means that the host of the other part answered and has no process of the VM: the memory there is lost.
	PostCopyLost PostCopyVerdict = "Lost"
	// PostCopySent means that the source has sent all of the memory: nothing is lost, and nothing is left to resume. The
	// target's libvirt only has not noticed it.
	PostCopySent PostCopyVerdict = "Sent"
	// PostCopyUndecided means that the host that may have the other part doesn't answer, or that it isn't known whether a
	// host that has sent the guest away is that host.
	PostCopyUndecided PostCopyVerdict = "Undecided"
)

// PostCopy returns the verdict on a guest whose migration failed in post-copy. Phase, status, readiness, conditions,
// metrics, plans and errors all follow from this verdict.
func (f Facts) PostCopy() PostCopyVerdict {
	switch {
	case f.Reason != ReasonPostcopyFailed || f.State != Paused && f.State != Running:
		return PostCopyIntact
	case len(f.HostStates) > 1:
		return PostCopyInterrupted
	case f.peerSent() && f.missingPart() == RoleSource:
		return PostCopySent
	case f.peerSent(), f.PostCopyPeer == "" && len(f.PostCopySent) > 0,
		f.PostCopyPeer != "" && slices.Contains(f.SilentHosts, f.PostCopyPeer),
		f.PostCopyPeer == "" && len(f.SilentHosts) > 0:
		return PostCopyUndecided
	default:
		return PostCopyLost
	}
}

// peerSent reports whether the host with the other part has sent the whole guest away. Only the host that the record
// names counts: an earlier migration may have left another host in the same state.
func (f Facts) peerSent() bool {
	return f.PostCopyPeer != "" && slices.Contains(f.PostCopySent, f.PostCopyPeer)
}

// missingPart returns the role of the host whose part of the memory isn't seen. The host on which the guest runs, with
// the memory that has arrived there, is the target. libvirt before 8.5 pauses the guest there, too.
func (f Facts) missingPart() Role {
	if f.State == Running || f.PostCopyFromPeer {
		return RoleSource
	}
	return RoleTarget
}

// PostCopyReport describes what each host has of a guest whose migration failed in post-copy, and what is lost.
func (f Facts) PostCopyReport() string { return f.postCopyReport("") }

func (f Facts) postCopyReport(more string) string {
	joined := ", and "
	if f.PostCopy() == PostCopySent {
		joined = " as far as libvirt knows, but "
	}
	text := "post-copy failed" + joined + f.postCopyText() + more + "; " + f.HostStatesText()
	if f.PostCopy() == PostCopyLost {
		text += "; what the guest had in memory is lost, and its disks are as after a power failure"
	}
	return text
}

// postCopyText describes where the parts of the guest's memory are.
func (f Facts) postCopyText() string {
	missing := f.missingPart()
	switch f.PostCopy() {
	case PostCopyInterrupted:
		return "both hosts still have their part of the guest's memory"
	case PostCopySent:
		return fmt.Sprintf("host %q has sent all of the guest's memory, so nothing is lost", f.PostCopyPeer)
	case PostCopyUndecided:
		if len(f.SilentHosts) == 0 {
			return fmt.Sprintf("whether a part of the guest's memory is lost isn't known: a migration from %s was complete, "+
				"and no record says whether it was this one", strings.Join(f.PostCopySent, ", "))
		}
		return fmt.Sprintf("whether the %s still has its part of the guest's memory isn't known, because these hosts "+
			"don't answer: %s", missing, strings.Join(f.SilentHosts, ", "))
	case PostCopyLost:
		return fmt.Sprintf("no host has the %s's part of the guest's memory any more", missing)
	default:
		return ""
	}
}
