package lifecycle

import "errors"

// Kinds of errors, told apart with errors.Is.
var (
	// ErrNotReady means that the deadline passed before what was awaited came.
	ErrNotReady = errors.New("not ready in time")
	// ErrRestartRequired means that a change needs a restart that the update policy does not allow.
	ErrRestartRequired = errors.New("a restart is required")
)
