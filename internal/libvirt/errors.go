package libvirt

import (
	"context"
	"errors"
	"fmt"
	"strings"

	golibvirt "libvirt.org/go/libvirt"
)

// The kinds of errors. Use errors.Is; an error that fits none of the others is ErrInternal.
var (
	// ErrNotFound says that the host answered and has no such object.
	ErrNotFound = errors.New("not found")
	// ErrLacking says that the object exists but lacks a part: a device, metadata, the host name of its guest. It never
	// means that the object is gone.
	ErrLacking = errors.New("the object has no such part")
	// ErrUnreachable says that the host or its daemon could not be reached, did not answer, or the connection broke. After
	// a call that changes something the outcome is unknown. It never means that an object is gone.
	ErrUnreachable = errors.New("host unreachable")
	// ErrNoDaemon says that the host was reached, but no libvirt daemon answers there. It is ErrUnreachable as well.
	ErrNoDaemon = errors.New("no libvirt daemon answers")
	// ErrRefused says that libvirt's daemon on the host answered, and opened no connection: an error of the host itself,
	// such as a system bus that doesn't run, where polkit is. It is ErrUnreachable as well.
	ErrRefused = errors.New("libvirt's daemon opens no connection")
	// ErrExists says that an object with this name or identity already exists.
	ErrExists = errors.New("already exists")
	// ErrAgentUnavailable says that the guest agent is not configured, absent, silent or out of step.
	ErrAgentUnavailable = errors.New("guest agent unavailable")
	// ErrAgentFailed says that the guest agent answered with an error of its own.
	ErrAgentFailed = errors.New("guest agent command failed")
	// ErrUnsupported says that this libvirt, hypervisor or guest doesn't support the operation.
	ErrUnsupported = errors.New("not supported")
	// ErrNotNow says that the host doesn't support the operation, or refuses it for a domain as it is now: libvirt has one
	// error number for both. Such a domain has a job on a disk, or snapshots. It is ErrUnsupported as well.
	ErrNotNow = fmt.Errorf("%w, or not for the domain as it is", ErrUnsupported)
	// ErrNoSecretDriver says that the host's libvirt keeps no secrets, so that nothing can be locked or recorded there.
	ErrNoSecretDriver = errors.New("libvirt on the host has no secret driver, which keeps locks and records")
	// ErrInvalid says that a URI, an XML document or an argument is wrong.
	ErrInvalid = errors.New("invalid")
	// ErrOperationInvalid says that the object's current state doesn't allow the operation, such as starting a running
	// domain.
	ErrOperationInvalid = errors.New("not possible in the present state")
	// ErrDenied says that authentication failed or access is forbidden.
	ErrDenied = errors.New("access denied")
	// ErrReadOnly says that the connection is read-only, as one to libvirt's socket for reading is.
	ErrReadOnly = fmt.Errorf("%w: the connection is read-only", ErrDenied)
	// ErrBusy says that the object is in use by another operation, or wasn't released in time.
	ErrBusy = errors.New("busy")
	// ErrNotReleased says that a guest was asked to release a device, and refused or hasn't answered in time.
	ErrNotReleased = fmt.Errorf("%w: the guest hasn't released the device", ErrBusy)
	// ErrAborted says that the operation was cancelled on the host.
	ErrAborted = errors.New("aborted")
	// ErrUnsafe says that libvirt considers a migration a danger to the guest's disks.
	ErrUnsafe = errors.New("unsafe migration")
	// ErrInternal is any other failure that libvirt or the hypervisor reported.
	ErrInternal = errors.New("operation failed")
	// ErrNoDriver says that the host's libvirt answered, and has no driver for such objects: the driver isn't installed,
	// or its own daemon doesn't run.
	ErrNoDriver = fmt.Errorf("%w: libvirt on the host lacks the driver", ErrInternal)
	// ErrDiskFull says that a file system of the host is full.
	ErrDiskFull = fmt.Errorf("%w: the host's disk is full", ErrInternal)
	// ErrNoFile says that a file or directory of the host doesn't exist.
	ErrNoFile = fmt.Errorf("%w: the host has no such file", ErrInternal)
	// ErrResetRequired says that QEMU has stopped a guest for good, as after an internal error of KVM (QEMU's run state
	// internal-error), and can't resume it. libvirt says of such a domain that it is paused for an unknown reason.
	ErrResetRequired = fmt.Errorf("%w: the guest can't be resumed", ErrInternal)
	// ErrAbandoned says that a migration was given up that may still be in progress: it didn't end after it was aborted,
	// or the caller stopped waiting. Both hosts may have changed, and the domain may be on either.
	ErrAbandoned = errors.New("it was given up and the host is still at it, so it is unknown where the domain will be")
	// ErrClosed says that the Host was closed.
	ErrClosed = errors.New("connection closed")
)

// Error is the type of all errors of a Host's methods, including those for an ended context. errors.Is finds the kind,
// context.Canceled and context.DeadlineExceeded, and what a DialFunc returned.
type Error struct {
	Host      string // the configured name
	Operation string // the operation that failed, such as "starting domain"
	Code      int    // libvirt's error number; 0 if there is none
	Kind      error  // one of the Err values; nil if the caller's context ended a call that changes something
	Err       error  // the cause
}

// Error returns "host kvm1: starting domain: <cause>".
func (e *Error) Error() string { return fmt.Sprintf("host %s: %s: %v", e.Host, e.Operation, e.Err) }

// Unwrap returns the kind and the cause.
func (e *Error) Unwrap() []error {
	if e.Kind == nil {
		return []error{e.Err}
	}
	return []error{e.Kind, e.Err}
}

// cause is libvirt's message without the binding's decoration.
type cause struct{ message string }

func (c *cause) Error() string { return c.message }

// codeOf returns libvirt's error number, 0 for an error that isn't libvirt's.
func codeOf(err error) golibvirt.ErrorNumber {
	var lv golibvirt.Error
	if errors.As(err, &lv) {
		return lv.Code
	}
	return 0
}

// wrap turns the error of a call into an *Error. lost says that the connection was broken afterwards.
func (h *Host) wrap(s callSpec, err error, lost bool) error {
	if err == nil {
		return nil
	}
	var done *Error
	if errors.As(err, &done) {
		return err
	}
	e := &Error{Host: h.cfg.Name, Operation: s.operation, Err: err}
	var lv golibvirt.Error
	switch {
	case errors.As(err, &lv):
		e.Code, e.Err, e.Kind = int(lv.Code), &cause{message: printable(lv.Message)}, kindOf(lv.Code)
		switch {
		case lost && breaksConnection[lv.Code]:
			e.Kind = ErrUnreachable
			for _, known := range []error{ErrRefused, ErrNoDaemon} {
				if errors.Is(err, known) {
					e.Err = fmt.Errorf("%w: %w", known, e.Err)
				}
			}
		case !lost && lv.Code == golibvirt.ERR_NO_CONNECT:
			e.Kind = ErrNoDriver
		case s.agent && lv.Code == golibvirt.ERR_ARGUMENT_UNSUPPORTED:
			// The guest has no agent configured.
			e.Kind = ErrAgentUnavailable
		case s.agent && (lv.Code == golibvirt.ERR_INTERNAL_ERROR || lv.Code == golibvirt.ERR_RPC):
			// Before libvirt 9.1 the agent's own refusals have no better number. ERR_RPC on an intact connection says that a
			// guest reports more than libvirt's protocol can carry.
			e.Kind = ErrAgentFailed
		case errors.Is(e.Kind, ErrInternal):
			e.Kind = worded(lv.Message, e.Kind)
		}
	case errors.Is(err, context.DeadlineExceeded):
		e.Kind = s.late
	case errors.Is(err, context.Canceled):
		if h.ctx.Err() != nil {
			e.Kind = ErrClosed
		}
	default:
		e.Kind = ownKind(err)
	}
	return e
}

// How hosts word ENOSPC, ENOENT and ESTALE, and QEMU that it can't resume a guest. libvirt has no error numbers for
// these.
const (
	diskFull      = "No space left on device"
	noFile        = "No such file or directory"
	staleFile     = "Stale file handle"
	resetRequired = "Resetting the Virtual Machine is required"
)

// worded returns the kind of an error that has no number of its own, or kind if its words are no known ones.
func worded(message string, kind error) error {
	switch {
	case strings.Contains(message, diskFull):
		return ErrDiskFull
	case strings.Contains(message, noFile):
		return ErrNoFile
	case strings.Contains(message, resetRequired):
		return ErrResetRequired
	default:
		return kind
	}
}

// ownKind returns the kind that an error already wraps. Any other error counts as a failure to reach the host: such
// errors come from dialing and from the stream.
func ownKind(err error) error {
	for _, kind := range []error{
		ErrDenied, ErrInvalid, ErrClosed, ErrExists, ErrNotFound, ErrUnsupported, ErrBusy, ErrInternal,
	} {
		if errors.Is(err, kind) {
			return kind
		}
	}
	return ErrUnreachable
}
