package lifecycle

import "errors"

// Kinds of errors, which errors.Is distinguishes.
var (
	// ErrNotReady means that the VM did not reach the required state before the deadline.
	ErrNotReady = errors.New("not ready in time")
	// ErrRestartRequired means that a change needs a restart that the update policy does not allow.
	ErrRestartRequired = errors.New("a restart is required")
)
