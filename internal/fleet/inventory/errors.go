package inventory

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// Kinds of errors, which errors.Is distinguishes. The first group is libvirt's own, repeated here so that resources
// import one package only.
var (
	ErrNotFound    = libvirt.ErrNotFound
	ErrUnreachable = libvirt.ErrUnreachable
	ErrExists      = libvirt.ErrExists
	ErrUnsupported = libvirt.ErrUnsupported
	ErrInvalid     = libvirt.ErrInvalid
	ErrBusy        = libvirt.ErrBusy

	// ErrComparesNone means that a host compares no files at all, because it runs no programs. It is ErrUnsupported.
	ErrComparesNone = fmt.Errorf("%w: the host compares no files", ErrUnsupported)

	// ErrUnconfigured means that the VM's last host is no longer configured, so it is unknown whether that host still has
	// the VM.
	ErrUnconfigured = errors.New("the VM's last host is not configured")
	// ErrTwoCopies means that a VM runs on more than one host.
	ErrTwoCopies = errors.New("the VM runs on more than one host")
	// ErrAmbiguous means that a VM is defined on several hosts and runs on none, and that nothing proves which definition
	// is the right one.
	ErrAmbiguous = errors.New("the VM is defined on more than one host")
	// ErrDuplicateHost means that two entries of the configuration lead to the same host.
	ErrDuplicateHost = hostset.ErrDuplicateHost
)

// Error is an error about a VM: which VM, on which host, what happened, and what the user can do about it.
type Error struct {
	VM     string // name or UUID
	Host   string // "" if it concerns no single host
	Kind   error
	Err    error  // the cause, may be nil
	Detail string // what happened, a sentence
	Remedy string // what to do about it, a sentence; may be empty
	Next   Next   // what to do after that, 0: nothing
	// Existing is the id of the object that exists already, and that the user may want to manage. "": none.
	Existing string
	Words    string // the end of QEMU's log, a paragraph for each host; may be empty
	// Attribute is the path of the attribute at fault ("disks.root.pool"), or empty if there is no single one.
	Attribute string
}

// Error implements error.
func (e *Error) Error() string {
	var parts []string
	if e.VM != "" {
		parts = append(parts, fmt.Sprintf("virtual machine %q", e.VM))
	}

	switch {
	case e.Detail != "":
		parts = append(parts, e.Detail)
	case e.Kind != nil:
		parts = append(parts, e.Kind.Error())
	}

	if e.Err != nil {
		parts = append(parts, e.Err.Error())
	}

	return strings.Join(parts, ": ")
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

// Problem is something that prevents a plan from working, found before anything is changed.
type Problem struct {
	// Attribute is the path of the attribute at fault ("disks.root.volume"), or empty if there is no single one.
	Attribute string
	Summary   string
	Detail    string
	Remedy    string
	Next      Next   // what to do after the remedy, 0: nothing
	Existing  string // as in Error
	// Warning says that the plan may work nevertheless: this can't be known in advance.
	Warning bool
}

// Failed returns the problem as the error of an operation on a VM.
func (p Problem) Failed(vm, host string, kind error) *Error {
	return &Error{
		VM: vm, Host: host, Kind: kind, Detail: p.Detail, Remedy: p.Remedy, Next: p.Next, Existing: p.Existing,
	}
}

// QuoteList returns the names in quotation marks, joined for use in a sentence.
func QuoteList(names []string) string {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = fmt.Sprintf("%q", n)
	}

	return strings.Join(quoted, ", ")
}

// WithoutHost returns the error without the host's name, for texts that name the host.
func WithoutHost(err error) error {
	var call *libvirt.Error
	if errors.As(err, &call) && call.Err != nil {
		return call.Err
	}

	return err
}

// PlainCause returns what the host answered, without the call that failed.
func PlainCause(err error) string { return WithoutHost(err).Error() }

// Refused says whether libvirt has answered with an error. Then it won't carry out the call later.
func Refused(err error) bool {
	return !errors.Is(err, ErrUnreachable) && !errors.Is(err, context.Canceled) &&
		!errors.Is(err, context.DeadlineExceeded)
}
