package move

import (
	"errors"
	"fmt"
)

var (
	// ErrNotMoved means that the VM was to be moved and was not, or that it is unknown whether it was.
	ErrNotMoved = errors.New("the VM was not moved")
	// ErrDestroyed means that what a broken migration left of a VM was ended, because on_irrecoverable says so.
	ErrDestroyed = errors.New("what was left of it was destroyed, as on_irrecoverable says")
	// ErrStays means that the VM stays where it is on purpose.
	ErrStays = errors.New("the VM stays")
	// ErrPinned is ErrStays for one that would be brought back.
	ErrPinned = fmt.Errorf("%w: its configuration pins it to this host; change its host, or remove it there", ErrStays)
)
