package inventory

import (
	"errors"
	"fmt"
	"strings"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// Kinds of errors, told apart with errors.Is. The first group is libvirt's own, repeated here so that resources need to
// know one package only.
var (
	ErrNotFound    = libvirt.ErrNotFound
	ErrUnreachable = libvirt.ErrUnreachable
	ErrExists      = libvirt.ErrExists
	ErrUnsupported = libvirt.ErrUnsupported
	ErrInvalid     = libvirt.ErrInvalid
	ErrBusy        = libvirt.ErrBusy

	// ErrUnconfigured means that the host that held the VM last is not among the configured ones any more, so that it is
	// unknown whether it still has the VM.
	ErrUnconfigured = errors.New("the VM's last host is not configured")
	// ErrTwoCopies means that a VM runs on more than one host.
	ErrTwoCopies = errors.New("the VM runs on more than one host")
	// ErrAmbiguous means that a VM is defined on several hosts, runs on none, and nothing says which definition is the
	// one.
	ErrAmbiguous = errors.New("the VM is defined on more than one host")
	// ErrDuplicateHost means that two entries of the configuration lead to one host.
	ErrDuplicateHost = errors.New("two configured hosts are one")
)

// Error is an error about a VM: which one, where, what was being done, and what the reader can do about it.
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

// Problem is something that keeps a plan from working, found before anything was touched.
type Problem struct {
	// Attribute is the path of the offending attribute ("disks.root.volume"), or empty when no single one is.
	Attribute string
	Summary   string
	Detail    string
	Remedy    string
	// Warning says that it need not keep the plan from working: it is unknown beforehand.
	Warning bool
}

// QuoteList is the names in quotation marks, as sentences have them.
func QuoteList(names []string) string {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = fmt.Sprintf("%q", n)
	}

	return strings.Join(quoted, ", ")
}

// WithoutHost is what an error says in addition to the host's name.
func WithoutHost(err error) error {
	var call *libvirt.Error
	if errors.As(err, &call) && call.Err != nil {
		return call.Err
	}

	return err
}

// PlainCause is what the host said, without what it was asked.
func PlainCause(err error) string { return WithoutHost(err).Error() }
