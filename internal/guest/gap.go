package guest

import (
	"errors"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// Why says why something isn't known, in words that a program can compare.
type Why string

// The reasons.
const (
	// NotRunning: the virtual machine is off or stands still.
	NotRunning Why = "not running"
	// Absent: the virtual machine has no channel for an agent.
	Absent Why = "agent absent"
	// NotConnected: nobody in the guest has opened the channel.
	NotConnected Why = "not connected"
	// TimedOut: the channel is open, and the agent didn't answer.
	TimedOut Why = "timed out"
	// Refused: the agent answered that it doesn't run the command, or that it failed.
	Refused Why = "command disabled or failed"
	// Unsupported: the host's libvirt or hypervisor can't ask that.
	Unsupported Why = "not supported by the host"
	// NotReported: the agent left it out.
	NotReported Why = "not reported by the guest agent"
	// NotAsked: nobody asked.
	NotAsked Why = "not asked"
)

// Reasons are all reasons.
func Reasons() []Why {
	return []Why{NotRunning, Absent, NotConnected, TimedOut, Refused, Unsupported, NotReported, NotAsked}
}

// Gap is something that isn't known.
type Gap struct {
	Why Why
	// Detail says more; it may be "".
	Detail string
}

// String joins the two.
func (g Gap) String() string {
	if g.Detail == "" {
		return string(g.Why)
	}
	return string(g.Why) + ": " + g.Detail
}

// timeoutError is a question whose time is over.
type timeoutError struct{ cause error }

func (e *timeoutError) Error() string { return e.cause.Error() }

// gapOf is the gap that an error leaves, without the host and operation around it, which a report is read together
// with.
func gapOf(err error) Gap {
	detail := err.Error()
	var call *libvirt.Error
	if errors.As(err, &call) && call.Err != nil {
		detail = call.Err.Error()
	}
	switch {
	case errors.Is(err, libvirt.ErrAgentFailed):
		return Gap{Refused, detail}
	case refused(err):
		return Gap{Unsupported, detail}
	default:
		return Gap{TimedOut, detail}
	}
}

// refused tells whether the error is an answer: the agent, or libvirt in its name, can't do what was asked, and may be
// able to do something else.
func refused(err error) bool {
	return errors.Is(err, libvirt.ErrUnsupported) || errors.Is(err, libvirt.ErrAgentFailed) ||
		errors.Is(err, libvirt.ErrInvalid)
}
