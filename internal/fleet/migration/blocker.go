package migration

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
)

// Blocker is something that blocks, or may block, a migration. Its reason is one of the codes.
type Blocker = status.Blocker

// Blocking returns the blockers that are certain.
func Blocking(blockers []Blocker) []Blocker {
	return slices.DeleteFunc(slices.Clone(blockers), func(b Blocker) bool { return b.Status != status.False })
}

// ErrBlocked means that a migration was not tried, because a blocker was found.
var ErrBlocked = errors.New("the VM can't be moved")

// BlockedError lists everything that blocks the migration, or what Blocked says.
type BlockedError struct {
	Blockers []Blocker
	// Blocked is a sentence about what is blocked, if it isn't a move.
	Blocked string
}

// Error lists the blockers, one per line.
func (e *BlockedError) Error() string {
	lines := make([]string, len(e.Blockers))
	for i, b := range e.Blockers {
		lines[i] = "\n  - " + b.String()
	}
	return cmp.Or(e.Blocked, ErrBlocked.Error()) + ":" + strings.Join(lines, "")
}

// Unwrap returns ErrBlocked.
func (e *BlockedError) Unwrap() error { return ErrBlocked }

// blockerList collects blockers.
type blockerList []Blocker

func (f *blockerList) block(reason, attribute, message, remedy string) {
	*f = append(*f, Blocker{Reason: reason, Status: status.False, Attribute: attribute, Message: message, Remedy: remedy})
}

// lacks reports a missing object of the target that a resource may create there.
func (f *blockerList) lacks(object status.HostObject, reason, attribute, message, remedy string) {
	f.block(reason, attribute, message, remedy)
	(*f)[len(*f)-1].Lacks = object
}

// blockForNow reports a blocker that ends by itself.
func (f *blockerList) blockForNow(reason, message, remedy string) {
	f.block(reason, "", message, remedy)
	(*f)[len(*f)-1].Temporary = true
}

func (f *blockerList) mayBlock(reason, attribute, message, remedy string) {
	*f = append(*f, Blocker{
		Reason: reason, Status: status.Unknown, Attribute: attribute, Message: message, Remedy: remedy,
	})
}
