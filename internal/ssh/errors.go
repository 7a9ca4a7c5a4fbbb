package ssh

import (
	"errors"
	"fmt"
	"strings"
)

// The kinds of failure, for [errors.Is]. Every error of this package carries one of them, unless the caller's own
// context was cancelled.
var (
	// ErrConfig means that a setting, a file that it names, or ssh_config can't be used. Nothing was sent to any host.
	ErrConfig = errors.New("invalid SSH configuration")
	// ErrUnreachable means that the host, or a jump host on the way, didn't answer, or that the connection broke.
	ErrUnreachable = errors.New("host unreachable")
	// ErrHostKey means that the host's key is unknown, changed, revoked or not certified as required.
	ErrHostKey = errors.New("host key refused")
	// ErrAuth means that the host accepted none of the credentials.
	ErrAuth = errors.New("authentication failed")
	// ErrSocket means that the host was reached, but nothing answers at that socket's path: it doesn't exist, no process
	// listens, or the user may not open it. Another path may work.
	ErrSocket = errors.New("socket not available")
	// ErrForwarding means that the host was reached, but allows no stream to any unix socket.
	ErrForwarding = errors.New("no way to unix sockets on the host")
	// ErrSessions means that the host was reached, but runs no further program for us, on the maximum number of
	// connections.
	ErrSessions = errors.New("no session left on the host")
	// ErrProgram means that the host was reached, but doesn't run a program of ours, or not to its end: its server, or the
	// user's shell there, refuses that.
	ErrProgram = errors.New("the host doesn't run the program")
	// ErrUnseen means that the host was reached, but the user who logs in may not see a file.
	ErrUnseen = errors.New("file not visible")
	// ErrClosed means that the client was closed.
	ErrClosed = errors.New("SSH client closed")
)

// Error is the failure of one host. It unwraps to its kind and to its cause.
type Error struct {
	// Host is user@host:port of the host that failed, which may be a jump host.
	Host string
	// Jump says that Host is a jump host: nothing is known of the host behind it.
	Jump bool
	// Op is the operation that failed, as a gerund: "connecting".
	Op string
	// Kind is one of the Err variables of this package, or nil if the caller's context was cancelled.
	Kind error
	// Err is the cause.
	Err error
}

// Error returns a text with the host, the operation and the cause.
func (e *Error) Error() string {
	return fmt.Sprintf("SSH to %s: %s: %v", e.Host, e.Op, e.Err)
}

// Unwrap returns the kind and the cause.
func (e *Error) Unwrap() []error {
	if e.Kind == nil {
		return []error{e.Err}
	}
	return []error{e.Kind, e.Err}
}

// configError returns an error of kind [ErrConfig] that is found before any host is known.
func configError(format string, args ...any) error {
	return &kindError{kind: ErrConfig, err: fmt.Errorf(format, args...)}
}

// SettingError is an error of kind [ErrConfig] about one field of a [Config].
type SettingError struct {
	// Setting is the field, as an ssh block of the provider calls it: "private_key_file".
	Setting string
	// Err is what is wrong with its value.
	Err error
}

// Error returns a text with the setting and the cause.
func (e *SettingError) Error() string { return e.Setting + ": " + e.Err.Error() }

// Unwrap returns the kind and the cause.
func (e *SettingError) Unwrap() []error { return []error{ErrConfig, e.Err} }

func settingError(setting string, err error) error { return &SettingError{Setting: setting, Err: err} }

// kindError attaches a kind to a cause without changing its text.
type kindError struct{ kind, err error }

func (e *kindError) Error() string   { return e.err.Error() }
func (e *kindError) Unwrap() []error { return []error{e.kind, e.err} }

// HostKeyProblem is why a host key was refused.
type HostKeyProblem string

// The problems that a host key can have.
const (
	HostKeyUnknown     HostKeyProblem = "unknown"
	HostKeyChanged     HostKeyProblem = "changed"
	HostKeyRevoked     HostKeyProblem = "revoked"
	HostKeyCertificate HostKeyProblem = "certificate"
	HostKeyNotRecorded HostKeyProblem = "not recorded"
)

// HostKeyError says why a host key was refused and where the decision comes from.
type HostKeyError struct {
	Problem HostKeyProblem
	// Name is the host's name in known_hosts, "[name]:port" for a port other than 22.
	Name string
	// KeyType and Fingerprint describe the key that the host presented.
	KeyType, Fingerprint string
	// File and Line are the place in known_hosts that contradicts a changed or revoked key.
	File string
	Line int
	// KnownType and KnownFingerprint describe the key found there.
	KnownType, KnownFingerprint string
	// Files are the known_hosts files that were searched.
	Files []string
	// Missing are the user's known_hosts files if none of them exists.
	Missing []string
	// NeverAsked says that ssh_config has StrictHostKeyChecking no for the host, which this package doesn't apply to
	// changed keys.
	NeverAsked bool
	// Err is the cause, if there is a further one.
	Err error
}

// Error returns a text that explains the refusal and what to do about it.
func (e *HostKeyError) Error() string {
	presented := fmt.Sprintf("it presents %s %s", e.KeyType, e.Fingerprint)
	switch e.Problem {
	case HostKeyChanged:
		text := fmt.Sprintf("the host key of %s has changed: %s, but %s:%d has %s %s; an attacker may be intercepting the"+
			" connection, or the host was reinstalled: only if that is certain, remove that line",
			e.Name, presented, e.File, e.Line, e.KnownType, e.KnownFingerprint)
		if e.NeverAsked {
			text += " (StrictHostKeyChecking no in ssh_config is taken as accept_new, which refuses changed keys)"
		}
		return text
	case HostKeyRevoked:
		return fmt.Sprintf("the host key of %s is revoked by %s:%d: %s", e.Name, e.File, e.Line, presented)
	case HostKeyCertificate:
		return fmt.Sprintf("the host certificate of %s can't be trusted: %v", e.Name, e.Err)
	case HostKeyNotRecorded:
		return fmt.Sprintf("the new host key of %s can't be recorded: %v", e.Name, e.Err)
	case HostKeyUnknown:
	}
	var files []string
	switch missing := strings.Join(e.Missing, ", "); len(e.Missing) {
	case 0:
	case 1:
		files = append(files, fmt.Sprintf("the configured known_hosts file %s does not exist: correct its path or make it",
			missing))
	default:
		files = append(files, fmt.Sprintf("the configured known_hosts files %s do not exist: correct their paths or make one",
			missing))
	}
	if len(e.Files) > 0 {
		files = append(files, "searched "+strings.Join(e.Files, ", "))
	}
	if len(files) == 0 {
		files = append(files, "no known_hosts file is configured")
	}
	return fmt.Sprintf("no host key is known for %s (%s): %s; compare that fingerprint with the host's own, then add"+
		" the key with ssh-keyscan, or let accept_new record it", e.Name, strings.Join(files, "; "), presented)
}

// Unwrap returns the cause, if there is a further one.
func (e *HostKeyError) Unwrap() error { return e.Err }

// orNil returns the error, or nil if there is none.
func (e *HostKeyError) orNil() error {
	if e == nil {
		return nil
	}
	return e
}

// AuthAttempt is one credential and its outcome.
type AuthAttempt struct {
	// Method is the SSH method: publickey, keyboard-interactive, password; or agent for the agent itself.
	Method string
	// Credential names what was tried, never its secret: a file, or a key's type and fingerprint.
	Credential string
	// Outcome is what the server, the agent or the file system said.
	Outcome string
}

// AuthError lists everything that was tried to authenticate.
type AuthError struct {
	User string
	// Attempts are in the order in which they were made.
	Attempts []AuthAttempt
	// Offered are the methods with which the server would continue.
	Offered []string
	// Err is what ended the attempts early, if anything: "too many authentication failures" from the server.
	Err error
}

// Error returns a text that lists each attempt with its outcome.
func (e *AuthError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "no credential was accepted for user %q", e.User)
	if len(e.Attempts) == 0 {
		b.WriteString(": there is no agent, key file, certificate or password to try")
	}
	for i, a := range e.Attempts {
		separator := "; "
		if i == 0 {
			separator = ": "
		}
		fmt.Fprintf(&b, "%s%s: %s", separator, strings.TrimSpace(a.Method+" "+a.Credential), a.Outcome)
	}
	if len(e.Offered) > 0 {
		fmt.Fprintf(&b, " (the server offers %s)", strings.Join(e.Offered, ", "))
	}
	if e.Err != nil {
		fmt.Fprintf(&b, "; then %v", e.Err)
	}
	return b.String()
}

// Unwrap returns what ended the attempts early.
func (e *AuthError) Unwrap() error { return e.Err }
