package lease

import (
	"errors"
	"fmt"
)

// Kinds of errors, which errors.Is distinguishes.
var (
	// ErrHeld means that another run had the lease until the wait ended.
	ErrHeld = errors.New("another run holds the lease")
	// ErrLost means that another run has taken the lease over, or removed it. Nothing is changed under it any more.
	ErrLost = errors.New("the lease was taken over by another run")
	// ErrUnconfirmed means that the last renewal is older than Validity, and that the lease could not be renewed.
	ErrUnconfirmed = errors.New("the lease could not be renewed")
	// ErrReleased means that the lease was already released.
	ErrReleased = errors.New("the lease was given back")
)

// Error is an error about a lease.
type Error struct {
	Host string // the host that stores the lease
	Name string // of the lease: the object that is changed under it
	Kind error
	Err  error // the cause, may be nil
	// Holder says which run holds the lease instead, for users; "" if it is unknown.
	Holder string
}

// Error implements error.
func (e *Error) Error() string {
	text := fmt.Sprintf("%v (%s on host %q)", e.Kind, e.Name, e.Host)
	if e.Holder != "" {
		text += ": " + e.Holder
	}

	if e.Err != nil {
		text += ": " + e.Err.Error()
	}

	return text
}

// Unwrap lets errors.Is and errors.As see the kind and the cause.
func (e *Error) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Kind}
	}

	return []error{e.Kind, e.Err}
}
