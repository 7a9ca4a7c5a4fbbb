package move

import (
	"errors"
	"fmt"
)

var (
	// ErrNotMoved means that the VM was not moved as requested, or that it is unknown whether it was.
	ErrNotMoved = errors.New("the VM was not moved")
	// ErrDestroyed means that the parts that a broken migration left of a VM were ended, because on_irrecoverable says
	// so.
	ErrDestroyed = errors.New("what was left of it was destroyed, as on_irrecoverable says")
	// ErrStays means that the VM intentionally stays where it is.
	ErrStays = errors.New("the VM stays")
	// ErrPinned is ErrStays for a VM that would be moved back because its host attribute pins it.
	ErrPinned = fmt.Errorf("%w: its host attribute pins it to this host; change or remove that", ErrStays)
)
