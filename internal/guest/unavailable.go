package guest

import (
	"errors"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// Reason says why something isn't known, in words that a program can compare.
type Reason string

// The reasons.
const (
	// NotRunning: the VM is off or stands still.
	NotRunning Reason = "not running"
	// Absent: the VM has no channel for an agent.
	Absent Reason = "agent absent"
	// NotConnected: no program in the guest has opened the channel.
	NotConnected Reason = "not connected"
	// TimedOut: the channel is open, and the agent didn't answer.
	TimedOut Reason = "timed out"
	// Refused: the agent answered that it doesn't run the command, or that it failed.
	Refused Reason = "command disabled or failed"
	// Unsupported: the host's libvirt or hypervisor can't ask that.
	Unsupported Reason = "not supported by the host"
	// NotReported: the agent left it out.
	NotReported Reason = "not reported by the guest agent"
	// NotAsked: it wasn't asked.
	NotAsked Reason = "not asked"
)

// Reasons are all reasons.
func Reasons() []Reason {
	return []Reason{NotRunning, Absent, NotConnected, TimedOut, Refused, Unsupported, NotReported, NotAsked}
}

// Unavailable is something that isn't known.
type Unavailable struct {
	Reason Reason
	// Detail says more; it may be "".
	Detail string
}

// String joins the two.
func (g Unavailable) String() string {
	if g.Detail == "" {
		return string(g.Reason)
	}
	return string(g.Reason) + ": " + g.Detail
}

// timeoutError is a question whose time is over.
type timeoutError struct{ cause error }

func (e *timeoutError) Error() string { return e.cause.Error() }

// unavailableFrom says why an error leaves something unknown, without the host and operation, which the reader of a
// report knows.
func unavailableFrom(err error) Unavailable {
	detail := err.Error()
	var call *libvirt.Error
	if errors.As(err, &call) && call.Err != nil {
		detail = call.Err.Error()
	}
	switch {
	case errors.Is(err, libvirt.ErrAgentFailed):
		return Unavailable{Refused, detail}
	case isRefusal(err):
		return Unavailable{Unsupported, detail}
	default:
		return Unavailable{TimedOut, detail}
	}
}

// isRefusal tells whether the error is an answer: the agent, or libvirt in its name, can't do what was asked, and may
// be able to do something else.
func isRefusal(err error) bool {
	return errors.Is(err, libvirt.ErrUnsupported) || errors.Is(err, libvirt.ErrAgentFailed) ||
		errors.Is(err, libvirt.ErrInvalid)
}
