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
	// HostKeyAcceptNew records the key of a new host, and refuses a changed key.
	HostKeyAcceptNew = "accept_new"
	// HostKeyInsecure accepts every key and warns each time.
	HostKeyInsecure = "insecure"
)

// Config says how a host is reached. Its settings take precedence over ssh_config, which takes precedence over the
// defaults of OpenSSH.
type Config struct {
	// Host is the host's name as the user writes it; ssh_config may map it to another name. Required.
	Host string
	// Port is the SSH port; if 0, that of ssh_config, then 22.
	Port int
	// User is the user to log in as; if empty, that of ssh_config, then the local user.
	User string

	// PrivateKeyFile or PrivateKey (the key itself, PEM) replace the identity files of ssh_config.
	PrivateKeyFile, PrivateKey string
	// Passphrase decrypts an encrypted private key.
	Passphrase string
	// CertificateFile is an OpenSSH certificate for the private key.
	CertificateFile string
	// Password is for the methods password and keyboard-interactive. It is sent to the host only, never to a jump host.
	Password string
	// Agent says whether the SSH agent is used. nil: if there is one; false: never; true: always, and authentication fails
	// without an agent that answers.
	Agent *bool

	// KnownHostsFile replaces the user's known_hosts files; the system's are still read.
	KnownHostsFile string
	// HostKeyChecking is HostKeyStrict, HostKeyAcceptNew or HostKeyInsecure; if empty, that of ssh_config, then strict.
	HostKeyChecking string

	// ConfigFile replaces ~/.ssh/config and /etc/ssh/ssh_config; "none" means no file at all.
	ConfigFile string
	// JumpHosts are the jump hosts in this order, each [user@]host[:port]; they replace ProxyJump.
	JumpHosts []string

	// ConnectTimeout bounds dialling and key exchange of each hop; if 0, that of ssh_config, then 10 s.
	ConnectTimeout time.Duration
	// KeepaliveInterval is how long the host may be silent before a keepalive request is sent; if 0, that of ssh_config,
	// then 15 s; below 0 none is sent.
	KeepaliveInterval time.Duration
	// KeepaliveCountMax is the number of silent intervals after which the connection is given up; if 0, that of
	// ssh_config, then 3.
	KeepaliveCountMax int

	// KeepTrying has a host that refuses the credentials tried once an hour for ever, as one whose key is refused always
	// is: for programs that run for months. Otherwise it isn't tried any more after the fourth refusal.
	KeepTrying bool

	// Jumps shares connections to jump hosts with other clients; nil means that they aren't shared.
	Jumps *Jumps

	// HelperURI is the libvirt URI, as seen on the host ("qemu:///system"), that is passed to virt-ssh-helper if the
	// server forbids forwarding to a socket of libvirt. If empty, only netcat is used then.
	HelperURI string

	// Logger receives warnings; nil discards them.
	Logger *slog.Logger
}

// String names the host and no secrets, whichever verb prints the configuration.
func (c Config) String() string { return "ssh.Config{" + c.Host + "}" }

// GoString returns the same as String.
func (c Config) GoString() string { return c.String() }

// LogValue returns the same as String.
func (c Config) LogValue() slog.Value { return slog.StringValue(c.String()) }

// Client is a client of one host. It is safe for concurrent use.
type Client struct {
	cfg      Config
	log      *slog.Logger
	connects atomic.Int64

	answerTimeout time.Duration // See the constant.

	jump    *target // The host, for a jump host's client; nil for a client that resolves it at each connection.
	via     *Client // The jump host through which this jump host is reached, if any.
	refused *refusal

	mu      sync.Mutex
	chain   *chain   // The connection in use, nil before the first.
	pending *attempt // The connection being made, nil when none is.
	closed  bool
	running sync.WaitGroup // Attempts.

	adding chan struct{} // Holds a token while a further connection is being made.
	others []*chain      // Further connections, for sessions that exceed the first. Guarded by mu.
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
		cfg: cfg, log: cfg.Logger.With("host", cfg.Host), refused: &refusal{keepTrying: cfg.KeepTrying},
		adding: make(chan struct{}, 1), answerTimeout: answerTimeout,
	}, nil
}

// DialUnix opens a stream to the unix socket at an absolute path on the host. It connects to the host if there is no
// connection, or no connection any more. If the server forbids forwarding to sockets, a program on the host connects to
// the socket.
//
// The stream supports deadlines and CloseWrite; closing it ends pending reads and writes at once. After a missed write
// deadline it is unknown which data arrived.
//
// Errors are of kind ErrSocket if the host can be reached but the socket can't, and otherwise ErrConfig,
// ErrUnreachable, ErrHostKey, ErrAuth, ErrForwarding or ErrClosed. If a program on the host takes long to find that the
// socket can't be connected to, the stream's first read returns the error. The context bounds the opening, not the
// stream.
func (c *Client) DialUnix(ctx context.Context, path string) (net.Conn, error) {
	if err := checkSocketPath(path); err != nil {
		return nil, err
	}
	return throughLink(ctx, c, "opening "+path, 0, func(ctx context.Context, l *link) (net.Conn, error) {
		return l.dialUnix(ctx, path)
	})
}

// DialSession opens a stream to libvirt's session daemon of the user who logs in. A program on the host connects to it:
// virt-ssh-helper, which starts the daemon if it doesn't run, or else netcat. It requires Config.HelperURI.
//
// The stream and the errors are those of [Client.DialUnix].
func (c *Client) DialSession(ctx context.Context) (net.Conn, error) {
	return throughLink(ctx, c, "opening the user's session", 0, func(ctx context.Context, l *link) (net.Conn, error) {
		return l.runStream(ctx, l.sessionScript(), "session")
	})
}

// answerTimeout bounds the wait for an answer of a host that is connected: a busy host may take long to start a
// program, and some never do, though their SSH server still answers keepalive requests.
const answerTimeout = time.Minute

// throughLink makes a request through the connection to the host. It may make the request twice, which must be safe. op
// names the request in errors, and work is how long the host may work on it. The request's context ends when the host
// should have answered.
func throughLink[T any](
	ctx context.Context, c *Client, op string, work time.Duration, ask func(context.Context, *link) (T, error),
) (T, error) {
	retried := false
	for number := 0; ; {
		var none T
		ch, err := c.connectionNumbered(ctx, number)
		if err != nil {
			return none, err
		}
		answer, err := askWithin(ctx, c.answerTimeout+work, func(ctx context.Context) (T, error) {
			return ask(ctx, ch.link)
		})
		switch {
		case err == nil:
			return answer, nil
		case ctx.Err() != nil:
		case !retried && ch.isLost():
			// The connection was lost before the request and breaks only now: try once more with a new connection.
			retried = true
			continue
		case errors.Is(err, ErrSessions) && number < maxConnections-1:
			number++
			continue
		}
		return none, c.explainError(ctx, ch.link.target, op, err)
	}
}

// askWithin makes a request that ends in time.
func askWithin[T any](ctx context.Context, limit time.Duration, ask func(context.Context) (T, error)) (T, error) {
	ctx, deadline := withDeadline(ctx, limit)
	defer deadline.stop()
	answer, err := ask(ctx)
	if err != nil && errors.Is(context.Cause(ctx), errTimeout) {
		err = fmt.Errorf("%w after %s", errTimeout, limit)
	}
	return answer, err
}

// maxConnections bounds the connections to one host. Further connections are made if the server runs no more programs
// on one: OpenSSH's default limit is ten (MaxSessions).
const maxConnections = 8

// connectionNumbered returns the shared connection, 0, or a further one, which it makes if necessary.
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

// Close closes the connection with everything that uses it, and waits until all of that has ended.
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

// sharedConnection returns the shared connection, and waits until it is made if necessary.
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
		// Others may still wait for the attempt when this caller leaves. It ends when the last of them leaves.
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
			c.pending = nil // The next caller mustn't join an attempt that has been cancelled.
		}
	}
	return nil, c.explainError(ctx, nil, "connecting", context.Cause(ctx))
}

// startAttempt begins an attempt that outlives the caller that caused it. The caller holds the mutex.
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
		if unwanted := c.finishAttempt(a, chain, err); unwanted != nil {
			unwanted.close(ErrClosed)
		}
	})
	return a
}

// finishAttempt passes the result of an attempt to the callers that wait for it. It returns the connection if no caller
// waits any more.
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

// explainError turns a failure into the error that the caller gets.
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
	return &Error{Host: host, Jump: c.jump != nil, Op: op, Kind: kind, Err: err}
}

// kindOf returns the kind of a failure; a failure without a kind is a host that didn't answer correctly.
func kindOf(err error) error {
	for _, kind := range []error{
		ErrConfig, ErrHostKey, ErrAuth, ErrSocket, ErrSessions, ErrForwarding, ErrProgram, ErrClosed,
	} {
		if errors.Is(err, kind) {
			return kind
		}
	}
	return ErrUnreachable
}
