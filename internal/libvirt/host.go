package libvirt

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Defaults of a Config.
const (
	// DefaultMaxConnections leaves two connections for requests to guest agents, and of the others half for reads and half
	// for slow calls. libvirtd accepts 5000 clients by default.
	DefaultMaxConnections = 10
	// DefaultConnectTimeout is long enough for the daemon's greeting, a handful of round trips, and, if there is no
	// DialFunc, for reaching the daemon.
	DefaultConnectTimeout = 15 * time.Second
)

const (
	// closeTimeout bounds the close of a connection, if its stream can be cut: the daemon may not accept what announces
	// it.
	closeTimeout = 2 * time.Second
	// leaveTimeout bounds the wait for all connections: for cut streams to be noticed, or for a daemon that is slow.
	leaveTimeout = 15 * time.Second
)

// DialFunc opens a stream to a unix socket on the host. An error that wraps ErrUnreachable, ErrDenied or ErrBusy says
// that no socket of the host can be reached; after any other error the next possible socket of libvirt is tried.
// DialFunc sets its own time limit: only DialFunc knows whether a user has to touch a key.
type DialFunc func(ctx context.Context, path string) (net.Conn, error)

// Config says how to reach one host.
type Config struct {
	// Name is the host's name in errors and logs.
	Name string
	// URI is a libvirt connection URI; if "", libvirt chooses.
	URI string
	// Dial reaches the host and is required for <driver>+ssh URIs. Other URIs are passed to libvirt as they are.
	Dial DialFunc
	// MaxConnections bounds the libvirt connections in use at a time, except one for events; 0 means
	// DefaultMaxConnections. At least three are allowed.
	MaxConnections int
	// ConnectTimeout bounds the opening of one connection, on the stream that Dial has opened if there is one; 0 means
	// DefaultConnectTimeout.
	ConnectTimeout time.Duration
	// Logger gets debug messages about connections; nil discards them.
	Logger *slog.Logger
	// Placeholders are values that stand for others that aren't known yet. A domain or a device that would get one is
	// refused with ErrInvalid.
	Placeholders []string

	// quiet says that libvirt's client sends no keepalive requests through streams of our own, in a test.
	quiet bool
	// storageLimit is the limit of reads of storage in a test; 0 means that of the call.
	storageLimit time.Duration
}

// Host is one libvirt host. Its methods may be called from many goroutines. Each returns when its context ends. A
// context without a deadline gets one: 30 seconds for a read, 15 for a request to a guest agent, a day for a migration
// and 2 minutes for other calls. A request to a guest agent never takes longer than 15 seconds, except AgentCommand.
// The wait for a connection doesn't count: it has the limits of Dial and ConnectTimeout, and never takes longer than 2
// minutes. The errors are of type *Error.
type Host struct {
	// contradicts says that the daemon has contradicted an early answer, so none are given any more.
	contradicts atomic.Bool
	// volumeChanges counts the calls that may have changed volumes.
	volumeChanges atomic.Uint64
	// networkChanges counts those that may have changed networks or network filters.
	networkChanges atomic.Uint64

	cfg       Config
	log       *slog.Logger
	target    *target
	pool      *pool
	events    *events
	counter   counter
	pipelined chan struct{} // holds a token for each pipelined call that hasn't ended
	connected atomic.Bool   // a connection was opened, and the host has not been silent for long since

	ctx        context.Context // ends with Close
	cancel     context.CancelFunc
	background tasks

	directories users    // the directories for which a pool is created
	silences    silences // the storage that doesn't answer

	socketMu sync.Mutex
	socket   string // the socket where the daemon was found

	infoMu sync.Mutex
	info   *HostInfo
	epoch  *conn // the connection that info was read from
	// guestDevices are the devices for guests, by architecture, domain type and machine type.
	guestDevices map[[3]string]readDevices
}

// Open prepares a host. It parses the URI and opens no connection; connections are opened when needed. Its error wraps
// ErrInvalid.
func Open(cfg Config) (*Host, error) {
	t, err := parseTarget(cfg.URI)
	if err != nil {
		return nil, &Error{Host: cfg.Name, Operation: "reading the connection URI", Kind: ErrInvalid, Err: err}
	}
	if t.bridged && cfg.Dial == nil {
		err = fmt.Errorf("%w configuration: the URI asks for SSH and there is nothing to dial with", ErrInvalid)
		return nil, &Error{Host: cfg.Name, Operation: "reading the connection URI", Kind: ErrInvalid, Err: err}
	}
	if cfg.MaxConnections <= 0 {
		cfg.MaxConnections = DefaultMaxConnections
	}
	if cfg.ConnectTimeout <= 0 {
		cfg.ConnectTimeout = DefaultConnectTimeout
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	h := &Host{cfg: cfg, log: cfg.Logger, target: t, pipelined: make(chan struct{}, pipelined)}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	h.pool = newPool(h)
	h.events = &events{host: h}
	return h, nil
}

// Name returns the host's configured name.
func (h *Host) Name() string { return h.cfg.Name }

// Calls returns the number of calls of each libvirt procedure since Open, by its name in libvirt's C API, such as
// "virDomainGetState". Each is one round trip, except virConnectOpen and virDomainMigrate3, which take several.
func (h *Host) Calls() map[string]int { return h.counter.snapshot() }

// VolumeChanges returns the number of calls since Open that may have changed which volumes the host's pools have, or
// their sizes. While it stays the same, this process has changed none of them.
func (h *Host) VolumeChanges() uint64 { return h.volumeChanges.Load() }

// NetworkChanges returns the number of calls since Open that may have changed the host's networks or network filters.
// While it stays the same, this process has changed none of them.
func (h *Host) NetworkChanges() uint64 { return h.networkChanges.Load() }

// countVolumeChange counts a call when it has ended, in vain or not.
func (c *conn) countVolumeChange() { c.host.volumeChanges.Add(1) }

// Close ends all calls and closes all connections. It takes at most two seconds for hosts that are reached through a
// DialFunc. For other hosts a call that hangs in libvirt can't be ended, which is an error after 15 seconds.
func (h *Host) Close() error {
	h.cancel()
	h.events.close()
	h.pool.close()
	if !h.background.wait(leaveTimeout) {
		return &Error{
			Host: h.cfg.Name, Operation: "closing the connections", Kind: ErrBusy,
			Err: errors.New("a call that libvirt hasn't returned from is left behind"),
		}
	}
	return nil
}

// ExpectSlowCalls opens connections, in the background, for that many calls at once that wait for a hypervisor process.
func (h *Host) ExpectSlowCalls(atOnce int) { h.pool.openAhead(slow, atOnce) }

// ExpectAgentCall opens a connection, in the background, for a request to a guest agent.
func (h *Host) ExpectAgentCall() { h.pool.openAhead(agents, 1) }

// onClose calls f in a goroutine when the host is closed, unless stop was called before.
func (h *Host) onClose(f func()) (stop func() bool) { return context.AfterFunc(h.ctx, f) }

// atSocket calls connect with the possible paths of the daemon's socket, one after the other, until a call succeeds.
func (h *Host) atSocket(ctx context.Context, paths []string, connect func(path string) error) error {
	h.socketMu.Lock()
	known := h.socket
	h.socketMu.Unlock()
	var failures []error
	// The path where the daemon was found last comes first. By now another daemon may listen at another path: an upgrade
	// of the host replaces libvirtd by virtqemud.
	if known != "" {
		others := slices.DeleteFunc(slices.Clone(paths), func(path string) bool { return path == known })
		paths = append([]string{known}, others...)
	}
	for _, path := range paths {
		err := connect(path)
		if err == nil {
			h.socketMu.Lock()
			h.socket = path
			h.socketMu.Unlock()
			return nil
		}
		if ctx.Err() != nil || errors.Is(err, ErrUnreachable) || errors.Is(err, ErrDenied) || errors.Is(err, ErrBusy) {
			return err
		}
		failures = append(failures, err)
	}
	return &noDaemonError{paths: paths, failures: failures}
}

// noDaemonError lists, in one line, the errors of the sockets, each cause once.
type noDaemonError struct {
	paths []string
	// failures has one error for each of the paths.
	failures []error
}

func (e *noDaemonError) Error() string {
	var causes []string
	at := map[string][]string{}
	// virt-ssh-helper names the socket that it chose itself.
	var names []string
	for _, path := range slices.SortedFunc(slices.Values(e.paths), func(a, b string) int { return len(b) - len(a) }) {
		names = append(names, "'"+path+"'", "the socket", path, "the socket")
	}
	anySocket := strings.NewReplacer(names...)
	for i, failure := range e.failures {
		cause := anySocket.Replace(failure.Error())
		if at[cause] == nil {
			causes = append(causes, cause)
		}
		at[cause] = append(at[cause], e.paths[i])
	}
	for i, cause := range causes {
		causes[i] = strings.Join(at[cause], ", ") + ": " + cause
	}
	return "no libvirt daemon answers at " + strings.Join(causes, "; at ")
}

func (e *noDaemonError) Unwrap() []error { return append([]error{ErrNoDaemon}, e.failures...) }

// tasks counts goroutines that outlive the call that started them.
type tasks struct {
	mu      sync.Mutex
	running int
	idle    chan struct{} // closed when running falls to zero; nil when no caller waits
}

// Go runs f in a goroutine.
func (t *tasks) Go(f func()) {
	t.add()
	go func() {
		defer t.done()
		f()
	}()
}

// add counts a goroutine that calls done when it ends.
func (t *tasks) add() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.running++
}

func (t *tasks) done() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.running--
	if t.running == 0 && t.idle != nil {
		close(t.idle)
		t.idle = nil
	}
}

// wait returns true when no goroutine runs, and false if some still run after the timeout.
func (t *tasks) wait(timeout time.Duration) bool {
	t.mu.Lock()
	if t.running == 0 {
		t.mu.Unlock()
		return true
	}
	if t.idle == nil {
		t.idle = make(chan struct{})
	}
	idle := t.idle
	t.mu.Unlock()
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-idle:
		return true
	case <-timer.C:
		return false
	}
}
