package fleet

import (
	"errors"
	"fmt"
	"strings"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// Kinds of errors, told apart with errors.Is. The first group is libvirt's own,
// repeated here so that resources need to know one package only.
var (
	ErrNotFound    = libvirt.ErrNotFound
	ErrUnreachable = libvirt.ErrUnreachable
	ErrExists      = libvirt.ErrExists
	ErrUnsupported = libvirt.ErrUnsupported
	ErrInvalid     = libvirt.ErrInvalid
	ErrBusy        = libvirt.ErrBusy

	// ErrUnconfigured means that the host that held the machine last is not
	// among the configured ones any more, so that nobody can tell whether it
	// still has the machine.
	ErrUnconfigured = errors.New("the machine's last host is not configured")
	// ErrTwoCopies means that a machine runs on more than one host.
	ErrTwoCopies = errors.New("the machine runs on more than one host")
	// ErrAmbiguous means that a machine is defined on several hosts, runs on
	// none, and nothing says which definition is the one.
	ErrAmbiguous = errors.New("the machine is defined on more than one host")
	// ErrNoHost means that no host can take the machine.
	ErrNoHost = errors.New("no host can take the machine")
	// ErrDuplicateHost means that two entries of the configuration lead to one
	// host.
	ErrDuplicateHost = errors.New("two configured hosts are one")
	// ErrLocked means that another run is changing the machine.
	ErrLocked = errors.New("another run holds the lock")
	// ErrNotReady means that the deadline passed before what was awaited came.
	ErrNotReady = errors.New("not ready in time")
	// ErrRestartRequired means that a change needs a restart that the update
	// policy does not allow.
	ErrRestartRequired = errors.New("a restart is required")
	// ErrBlocked means that something is in the way of moving the machine, and
	// nothing was tried.
	ErrBlocked = migration.ErrBlocked
	// ErrNotMoved means that the machine was to be moved and was not, or that
	// nobody can tell whether it was.
	ErrNotMoved = errors.New("the machine was not moved")
	// ErrDestroyed means that what a broken migration left of a machine was
	// ended, because on_irrecoverable says so.
	ErrDestroyed = errors.New("what was left of it was destroyed, as on_irrecoverable says")
)

// Error is an error about a machine: which one, where, what was being done, and
// what the reader can do about it.
type Error struct {
	VM     string // name or UUID
	Host   string // "" when it concerns no single host
	Kind   error
	Err    error  // the cause, may be nil
	Detail string // what happened, a sentence
	Remedy string // what to do about it, a sentence; may be empty
	Words  string // the end of QEMU's log, a paragraph for each host; may be empty
}

// Error implements error.
func (e *Error) Error() string {
	var b strings.Builder
	if e.VM != "" {
		fmt.Fprintf(&b, "virtual machine %q: ", e.VM)
	}

	switch {
	case e.Detail != "":
		b.WriteString(e.Detail)
	case e.Kind != nil:
		b.WriteString(e.Kind.Error())
	}

	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}

	return b.String()
}

// Unwrap lets errors.Is and errors.As see the kind and the cause.
func (e *Error) Unwrap() []error {
	var all []error
	if e.Kind != nil {
		all = append(all, e.Kind)
	}

	if e.Err != nil {
		all = append(all, e.Err)
	}

	return all
}

// Problem is something that keeps a plan from working, found before anything
// was touched.
type Problem struct {
	// Attribute is the path of the offending attribute ("disks.root.volume"),
	// or empty when no single one is.
	Attribute string
	Summary   string
	Detail    string
	Remedy    string
	// Warning says that it need not keep the plan from working: nobody can tell
	// beforehand.
	Warning bool
}

func quoteList(names []string) string {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = fmt.Sprintf("%q", n)
	}

	return strings.Join(quoted, ", ")
}
