package ssh

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// How host keys are checked.
const (
	// HostKeyStrict refuses a host whose key isn't known.
	HostKeyStrict = "strict"
	// HostKeyAcceptNew records the key of a host that is seen for the first time, and refuses a changed one.
	HostKeyAcceptNew = "accept_new"
	// HostKeyInsecure accepts every key and warns each time.
	HostKeyInsecure = "insecure"
)

// Config says how a host is reached. What is set here wins over ssh_config, which wins over the defaults of OpenSSH.
type Config struct {
	// Host is the host as the user names it; ssh_config may give it another name. Required.
	Host string
	// Port is the SSH port; 0 leaves it to ssh_config, then 22.
	Port int
	// User is the user to log in as; empty leaves it to ssh_config, then the local user.
	User string

	// PrivateKeyFile or PrivateKey (the key itself, PEM) replace the identity files of ssh_config.
	PrivateKeyFile, PrivateKey string
	// Passphrase opens an encrypted private key.
	Passphrase string
	// CertificateFile is an OpenSSH certificate for the private key.
	CertificateFile string
	// Password is for the methods password and keyboard-interactive. It is given to the host only, never to a jump host.
	Password string
	// Agent says whether the SSH agent is used: nil when there is one, false never, true always: without one that
	// answers, authentication fails.
	Agent *bool

	// KnownHostsFile replaces the user's known_hosts files; the system's are still read.
	KnownHostsFile string
	// HostKeyChecking is HostKeyStrict, HostKeyAcceptNew or HostKeyInsecure; empty leaves it to ssh_config, then strict.
	HostKeyChecking string

	// ConfigFile is read in place of ~/.ssh/config and /etc/ssh/ssh_config; "none" means no file at all.
	ConfigFile string
	// JumpHosts are gone through in this order, each [user@]host[:port]; they replace ProxyJump.
	JumpHosts []string

	// ConnectTimeout bounds dialling and key exchange of each hop; 0 leaves it to ssh_config, then 10 s.
	ConnectTimeout time.Duration
	// KeepaliveInterval is how long the host may be silent before it is asked for a sign of life; 0 leaves it to
	// ssh_config, then 15 s; below 0 it is never asked.
	KeepaliveInterval time.Duration
	// KeepaliveCountMax is after how many silent intervals the connection is given up; 0 leaves it to ssh_config, then 3.
	KeepaliveCountMax int

	// Jumps shares connections to jump hosts with other clients; nil shares them with none.
	Jumps *Jumps

	// HelperURI is the libvirt URI, as seen on the host ("qemu:///system"), that is handed to virt-ssh-helper when the
	// server forbids forwarding to a socket of libvirt. Empty: only netcat is used then.
	HelperURI string

	// Logger receives warnings; nil discards them.
	Logger *slog.Logger
}

// String names the host and nothing secret, whichever verb prints the configuration.
func (c Config) String() string { return "ssh.Config{" + c.Host + "}" }

// GoString is String.
func (c Config) GoString() string { return c.String() }

// LogValue is String.
func (c Config) LogValue() slog.Value { return slog.StringValue(c.String()) }

// Client is one host over SSH. It is safe for concurrent use.
type Client struct {
	cfg      Config
	log      *slog.Logger
	connects atomic.Int64

	jump    *target // The host, of a jump host's client; nil for one that finds out at each connection.
	via     *Client // The jump host that this jump host is behind, if any.
	refused *refusal

	mu      sync.Mutex
	chain   *chain   // The connection in use, nil before the first.
	pending *attempt // The connection being made, nil when none is.
	closed  bool
	running sync.WaitGroup // Attempts.

	adding chan struct{} // Holds a token while a further connection is made.
	others []*chain      // Further connections, for sessions that the first has no room for. Guarded by mu.
}

// attempt is one connection being made for all callers that wait for it.
type attempt struct {
	cancel  context.CancelFunc
	waiters int // Guarded by Client.mu.
	done    chan struct{}
	chain   *chain
	err     error
}

// NewClient checks the configuration and does no network I/O. Its errors are of kind [ErrConfig].
func NewClient(cfg Config) (*Client, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if cfg.Jumps == nil {
		cfg.Jumps = &Jumps{}
	}
	return &Client{
		cfg: cfg, log: cfg.Logger.With("host", cfg.Host), refused: &refusal{}, adding: make(chan struct{}, 1),
	}, nil
}

// Connects says how many connections were made to the host so far, or tried to.
func (c *Client) Connects() int { return int(c.connects.Load()) }

// DialUnix opens a stream to the unix socket at an absolute path on the host. It connects to the host when there is
// no connection yet or no more. Where the server forbids forwarding to sockets, a program on the host makes the
// connection to the socket.
//
// The stream supports deadlines and CloseWrite; closing it ends pending reads and writes at once. After a missed write
// deadline it is unknown what arrived.
//
// Errors are of kind ErrSocket when the socket can't be reached but the host can, and otherwise ErrConfig,
// ErrUnreachable, ErrHostKey, ErrAuth, ErrForwarding or ErrClosed. A program on the host that takes its time to find
// the socket dead is told of by the stream's first read. The context bounds the opening, not the stream.
func (c *Client) DialUnix(ctx context.Context, path string) (net.Conn, error) {
	if err := checkSocketPath(path); err != nil {
		return nil, err
	}
	return throughLink(ctx, c, "opening "+path, func(l *link) (net.Conn, error) { return l.dialUnix(ctx, path) })
}

// DialSession opens a stream to libvirt's daemon of the user who logs in. A program on the host makes the connection:
// virt-ssh-helper, which starts the daemon if it doesn't run, or else netcat. Config.HelperURI is needed.
//
// The stream and the errors are those of [Client.DialUnix].
func (c *Client) DialSession(ctx context.Context) (net.Conn, error) {
	return throughLink(ctx, c, "opening the user's session", func(l *link) (net.Conn, error) {
		return l.runStream(ctx, l.sessionScript(), "session")
	})
}

// throughLink asks for something through the connection to the host, which must bear being asked for twice. op is what
// errors call it.
func throughLink[T any](ctx context.Context, c *Client, op string, ask func(*link) (T, error)) (T, error) {
	retried := false
	for number := 0; ; {
		var none T
		ch, err := c.connectionNumbered(ctx, number)
		if err != nil {
			return none, err
		}
		answer, err := ask(ch.link)
		switch {
		case err == nil:
			return answer, nil
		case ctx.Err() != nil:
		case !retried && ch.isLost():
			// A connection that breaks under the request was lost without notice: once more with a new one.
			retried = true
			continue
		case errors.Is(err, ErrSessions) && number < maxConnections-1:
			number++
			continue
		}
		return none, c.explainError(ctx, ch.link.target, op, err)
	}
}

// maxConnections is how many connections there are to one host at most. Further ones than the first are made where a
// server runs no more programs on one, of which OpenSSH's default is ten (MaxSessions).
const maxConnections = 8

// connectionNumbered returns the shared connection, 0, or a further one, made if need be.
func (c *Client) connectionNumbered(ctx context.Context, number int) (*chain, error) {
	if number == 0 {
		return c.sharedConnection(ctx)
	}
	select {
	case c.adding <- struct{}{}:
		defer func() { <-c.adding }()
	case <-ctx.Done():
		return nil, c.explainError(ctx, nil, "connecting once more", context.Cause(ctx))
	}
	c.mu.Lock()
	var lost []*chain
	c.others = slices.DeleteFunc(c.others, func(ch *chain) bool {
		if ch.isLost() {
			lost = append(lost, ch)
			return true
		}
		return false
	})
	if number <= len(c.others) {
		ch := c.others[number-1]
		c.mu.Unlock()
		return ch, nil
	}
	c.mu.Unlock()
	for _, ch := range lost {
		ch.close(ErrClosed)
	}
	c.connects.Add(1)
	ch, err := c.connect(ctx)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	closed := c.closed
	if !closed {
		c.others = append(c.others, ch)
	}
	c.mu.Unlock()
	if closed {
		ch.close(ErrClosed)
		return nil, &Error{Host: c.cfg.Host, Op: "connecting", Kind: ErrClosed, Err: ErrClosed}
	}
	return ch, nil
}

// Close closes the connection with everything that goes through it, and waits until all of it has ended.
func (c *Client) Close() error {
	c.mu.Lock()
	c.closed = true
	if c.pending != nil {
		c.pending.cancel()
	}
	chains := c.others
	if c.chain != nil {
		chains = append(chains, c.chain)
	}
	c.chain, c.others = nil, nil
	c.mu.Unlock()
	c.running.Wait()
	for _, ch := range chains {
		ch.close(ErrClosed)
	}
	return nil
}

// sharedConnection returns the shared connection, waiting for it to be made if need be.
func (c *Client) sharedConnection(ctx context.Context) (*chain, error) {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil, &Error{Host: c.cfg.Host, Op: "connecting", Kind: ErrClosed, Err: ErrClosed}
	}
	if c.chain != nil && !c.chain.isLost() {
		defer c.mu.Unlock()
		return c.chain, nil
	}
	a := c.pending
	if a == nil {
		if err := c.refused.standingError(); err != nil {
			c.mu.Unlock()
			return nil, c.explainError(ctx, nil, "connecting", err)
		}
		// Others may wait for it when this caller leaves. It ends when the last one does.
		a = c.startAttempt(context.WithoutCancel(ctx))
	}
	a.waiters++
	c.mu.Unlock()

	select {
	case <-a.done:
		return a.chain, a.err
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	a.waiters--
	if a.waiters == 0 {
		a.cancel()
		if c.pending == a {
			c.pending = nil // Whoever comes next mustn't join an attempt that has been cancelled.
		}
	}
	return nil, c.explainError(ctx, nil, "connecting", context.Cause(ctx))
}

// startAttempt begins an attempt that outlives the caller who caused it. The mutex is held.
func (c *Client) startAttempt(ctx context.Context) *attempt {
	ctx, cancel := context.WithCancel(ctx)
	a := &attempt{cancel: cancel, done: make(chan struct{})}
	c.pending = a
	old := c.chain
	c.chain = nil
	c.connects.Add(1)
	c.running.Go(func() {
		defer cancel()
		if old != nil {
			old.close(ErrClosed)
		}
		chain, err := c.connect(ctx)
		c.refused.noteOutcome(err)
		if unwanted := c.finishAttempt(a, chain, err); unwanted != nil {
			unwanted.close(ErrClosed)
		}
	})
	return a
}

// finishAttempt hands the result of an attempt to those who wait. It returns the connection if none of them wants it
// any more.
func (c *Client) finishAttempt(a *attempt, made *chain, err error) (unwanted *chain) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err != nil:
		a.err = err
	case c.closed || c.pending != a:
		a.err = &Error{Host: c.cfg.Host, Op: "connecting", Kind: ErrClosed, Err: ErrClosed}
		unwanted = made
	default:
		a.chain, c.chain = made, made
	}
	if c.pending == a {
		c.pending = nil
	}
	close(a.done)
	return unwanted
}

// explainError turns a failure into the error that the caller sees.
func (c *Client) explainError(ctx context.Context, t *target, op string, err error) error {
	if e := (*Error)(nil); errors.As(err, &e) {
		return err
	}
	host := c.cfg.Host
	if t != nil {
		host = t.String()
	}
	kind := kindOf(err)
	if ended := ctx.Err(); ended != nil {
		if errors.Is(ended, context.Canceled) {
			kind = nil
		}
		if !errors.Is(err, ended) {
			err = fmt.Errorf("%w: %w", ended, err)
		}
	}
	return &Error{Host: host, Op: op, Kind: kind, Err: err}
}

// kindOf finds the kind of a failure; what has none is a host that didn't answer as it should.
func kindOf(err error) error {
	for _, kind := range []error{ErrConfig, ErrHostKey, ErrAuth, ErrSocket, ErrSessions, ErrForwarding, ErrClosed} {
		if errors.Is(err, kind) {
			return kind
		}
	}
	return ErrUnreachable
}
