package guest

import (
	"errors"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// Reason says why a value is unknown, in words that a program can compare.
type Reason string

// The reasons.
const (
	// NotRunning says that the VM is off or paused.
	NotRunning Reason = "not running"
	// Absent says that the VM has no channel for an agent.
	Absent Reason = "agent absent"
	// NotConnected says that no program in the guest has opened the channel.
	NotConnected Reason = "not connected"
	// TimedOut says that the channel is open, but the agent didn't answer.
	TimedOut Reason = "timed out"
	// Refused says that the agent doesn't run the command, or that the command failed.
	Refused Reason = "command disabled or failed"
	// Unsupported says that the host's libvirt or hypervisor doesn't support the request.
	Unsupported Reason = "not supported by the host"
	// NotReported says that the agent left the value out.
	NotReported Reason = "not reported by the guest agent"
	// NotAsked says that the value wasn't requested.
	NotAsked Reason = "not asked"
)

// Reasons returns all reasons.
func Reasons() []Reason {
	return []Reason{NotRunning, Absent, NotConnected, TimedOut, Refused, Unsupported, NotReported, NotAsked}
}

// Unavailable says why a value is unknown.
type Unavailable struct {
	Reason Reason
	// Detail adds details; it may be "".
	Detail string
}

// String returns the reason and the detail.
func (g Unavailable) String() string {
	if g.Detail == "" {
		return string(g.Reason)
	}
	return string(g.Reason) + ": " + g.Detail
}

// timeoutError is the error of a request that timed out.
type timeoutError struct{ cause error }

func (e *timeoutError) Error() string { return e.cause.Error() }

// unavailableFrom says why an error makes a value unknown, without the host and the operation, which a reader of the
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

// isRefusal reports whether the error is an answer: the agent, or libvirt on its behalf, doesn't support this request,
// but may support others.
func isRefusal(err error) bool {
	return errors.Is(err, libvirt.ErrUnsupported) || errors.Is(err, libvirt.ErrAgentFailed) ||
		errors.Is(err, libvirt.ErrInvalid)
}
