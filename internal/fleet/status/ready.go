package status

import (
	"fmt"
	"strings"
)

// ReadyCriteria is what a VM requires to be ready, in addition to a running guest.
type ReadyCriteria struct {
	// GuestAgent requires a connected guest agent.
	GuestAgent bool
	// IPAddress is the key of an interface that must have an address.
	IPAddress string
}

// ReadyWith returns the condition Ready: the guest runs and meets the criteria. The message names all that is missing,
// the reason the first.
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

// Missing returns what prevents a VM from being ready, the most fundamental first; nothing for a VM that is ready.
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
