package tfdiag

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// Failure is an error for the user. Only Verb, Noun and Err are required. Other fields that aren't set are taken from
// the error, if it has them.
type Failure struct {
	// Verb and Noun make the summary: "Unable to <verb> <noun>".
	Verb, Noun string
	// Happened is a sentence about what happened; "": the error's own text.
	Happened string
	// VirtualMachine is the name or id of the VM concerned.
	VirtualMachine string
	// Host is the name of the host where it happened.
	Host string
	// Operation is the operation as a gerund: "starting the domain".
	Operation string
	// Elapsed is how long it was tried. Less than a second isn't shown.
	Elapsed time.Duration
	// Err is the error.
	Err error
	// Limit is why the operation's context ended, if it did. A LimitError is shown.
	Limit error
	// Remedy is a sentence about what to do; "": the error's own remedy, or else that of its kind.
	Remedy string

	words string // the end of QEMU's log, if the error has it
	warns bool   // the run continues
}

// DestroyAnyway is part of the remedy of errors that refuse a change, because Terraform plans changes before it plans
// to destroy.
const DestroyAnyway = "To destroy, use \"terraform destroy -refresh=false\", which doesn't plan this change first."

// ChangeUsersFirst is the remedy for an object that is in use and is to be destroyed or replaced.
const ChangeUsersFirst = "Change or move what stays and uses it first, in an apply of its own. If the resource is " +
	"replaced, lifecycle { create_before_destroy = true } in it changes what uses it in the same apply."

// Error returns the diagnostic of a failed operation.
func (f Failure) Error() diag.Diagnostic {
	return diag.NewErrorDiagnostic(f.summary(), f.detail())
}

// AttributeError returns the diagnostic of an operation that failed because of one attribute.
func (f Failure) AttributeError(at path.Path) diag.Diagnostic {
	return diag.NewAttributeErrorDiagnostic(at, f.summary(), f.detail())
}

// Warning returns the diagnostic of an operation that succeeded only partly.
func (f Failure) Warning() diag.Diagnostic {
	f.warns = true
	return diag.NewWarningDiagnostic(f.summary(), f.detail())
}

// Within returns the failure of an operation in that context. It says if the context has reached its limit.
func (f Failure) Within(ctx context.Context) Failure {
	f.Limit = context.Cause(ctx)
	return f
}

func (f Failure) summary() string {
	return printable(strings.TrimSpace("Unable to " + f.Verb + " " + f.Noun))
}

func (f Failure) detail() string {
	f, happened, cause := f.completed()

	var paragraphs []string
	for _, p := range []string{asSentence(happened), asSentence(cause), f.words, f.factLines(), asSentence(f.Remedy)} {
		if p != "" {
			paragraphs = append(paragraphs, p)
		}
	}
	return printable(strings.Join(paragraphs, "\n\n"))
}

// completed returns the failure with fields taken from the error, and with what happened and why.
func (f Failure) completed() (complete Failure, happened, cause string) {
	happened = f.Happened
	if f.Err == nil {
		return f, happened, ""
	}
	why := f.Err

	var vm *fleet.Error
	var own string
	if errors.As(f.Err, &vm) {
		f.Host = cmp.Or(f.Host, vm.Host)
		f.VirtualMachine = cmp.Or(f.VirtualMachine, vm.VM)
		own, f.words = advice(vm.Remedy, vm.Next, vm.Existing), vm.Words
		// Only the outermost error is taken apart: otherwise the text that wraps it would be lost.
		if outermost, ok := why.(*fleet.Error); ok && (vm.Detail != "" || vm.Err != nil) { //nolint:errorlint // see above
			happened, why = joinSentences(happened, vm.Detail), outermost.Err
		}
	}
	var call *libvirt.Error
	if errors.As(f.Err, &call) {
		f.Host = cmp.Or(f.Host, call.Host)
		f.Operation = cmp.Or(f.Operation, call.Operation)
		// The fact lines already show the rest of this error.
		outermost, ok := why.(*libvirt.Error) //nolint:errorlint // see above
		if ok && call.Err != nil && f.Host == outermost.Host && f.Operation == outermost.Operation {
			why = outermost.Err
		}
	}
	if limit := f.limit(); limit != nil {
		f.Limit = limit
		switch {
		case errors.Is(f.Err, fleet.ErrLocked): // The other run is the reason, not a slow host.
		case errors.Is(f.Err, storage.ErrIncompleteInTime):
			own = limit.remedyOfCopy()
		default:
			own = cmp.Or(own, limit.remedy())
		}
	}
	f.Remedy = cmp.Or(f.Remedy, remedyFor(f.Err, own, !f.warns))
	if f.Host != "" {
		f.Remedy = strings.ReplaceAll(f.Remedy, anyHost, "hosts."+f.Host)
	}
	if why != nil {
		cause = userText(why)
	}

	if asSentence(cause) == asSentence(happened) {
		cause = ""
	}
	happened, cause = f.withLimit(happened, cause)
	return f, inUsersWords(happened), inUsersWords(cause)
}

// limit returns the limit that ended the operation, nil if none did.
func (f Failure) limit() *LimitError {
	if limit, is := errors.AsType[*LimitError](f.Err); is {
		return limit
	}
	if limit, is := errors.AsType[*LimitError](f.Limit); is && errors.Is(f.Err, context.DeadlineExceeded) {
		return limit
	}
	return nil
}

// withLimit adds which limit was reached, if that is the cause.
func (f Failure) withLimit(happened, cause string) (string, string) {
	limit, reached := errors.AsType[*LimitError](f.Limit)
	told := reached && strings.Contains(happened+cause, limit.Error())
	if !reached || !told && !errors.Is(f.Err, context.DeadlineExceeded) {
		return happened, cause
	}
	cause = strings.TrimSuffix(cause, ": "+context.DeadlineExceeded.Error())
	if cause == userText(context.DeadlineExceeded) {
		cause = ""
	}
	if !told {
		happened = joinSentences(limit.Error(), happened)
	}
	return happened, joinSentences(cause, limit.overrunText(f.Elapsed))
}

// userText returns the text of an error, in a user's words if the error is only that a context ended.
func userText(err error) string {
	switch err { //nolint:errorlint // an error that wraps them says more
	case context.Canceled:
		return "it was cancelled"
	case context.DeadlineExceeded:
		return "it took longer than its timeout allows"
	default:
		return err.Error()
	}
}

// inUsersWords replaces the end of a text that Go's context package wrote.
func inUsersWords(text string) string {
	for _, err := range []error{context.Canceled, context.DeadlineExceeded} {
		if what, is := strings.CutSuffix(text, ": "+err.Error()); is {
			return what + ": " + userText(err)
		}
	}
	return text
}

// factLines lists VM, host, operation and duration, one on each line.
func (f Failure) factLines() string {
	var lines []string
	add := func(key, value string) {
		if value != "" {
			lines = append(lines, key+": "+value)
		}
	}
	add("Virtual machine", f.VirtualMachine)
	add("Host", f.Host)
	add("Operation", f.Operation)
	if f.Elapsed >= time.Second {
		add("Elapsed", roundElapsed(f.Elapsed))
	}
	return strings.Join(lines, "\n")
}

// roundElapsed rounds a duration to a precision that is useful to a reader.
func roundElapsed(d time.Duration) string {
	if d < time.Minute {
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	return d.Round(time.Second).String()
}

func joinSentences(a, b string) string {
	if a == "" {
		return b
	}
	if endsInCommand(a) && b != "" { // Nothing follows a command on its line, so that it can be copied.
		return asSentence(a) + "\n" + asSentence(b)
	}
	return asSentence(a) + " " + asSentence(b)
}

// command matches a command at the end of a text, after a colon or on a line of its own.
var command = regexp.MustCompile(`(?:^|\n *|: )(?:terraform|virsh) [^,;\n]*[^.!?:,;\s]$`)

func endsInCommand(s string) bool { return command.MatchString(strings.TrimSpace(s)) }

// asSentence makes a phrase a sentence, with a capital letter and a full stop. If the phrase begins with a name, such
// as alice@desk, the name stays as it is. If it ends in a command, it gets no full stop, which would be copied too.
func asSentence(s string) string {
	s = strings.TrimSpace(s)
	if s == "" {
		return ""
	}
	word, _, _ := strings.Cut(s, " ")
	if !strings.ContainsFunc(word, func(r rune) bool { return !unicode.IsLetter(r) }) {
		r, size := utf8.DecodeRuneInString(s)
		s = string(unicode.ToUpper(r)) + s[size:]
	}
	// A list doesn't end with a full stop either.
	last := s[strings.LastIndexByte(s, '\n')+1:]
	if !strings.ContainsAny(s[len(s)-1:], ".!?:") && !strings.HasPrefix(last, "  - ") && !endsInCommand(s) {
		s += "."
	}
	return s
}
