package ssh

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	xssh "golang.org/x/crypto/ssh"
)

const (
	// authTimeout bounds authentication after the key exchange: an agent may have to wait until a user touches a hardware
	// key, and a server's PAM stack may be slow. sshd itself allows 120 s by default.
	authTimeout = 60 * time.Second
	// maxHops bounds the length of a route; a longer route is a loop in ssh_config.
	maxHops = 16
)

// hop is a host on the route, as the user wrote it.
type hop struct {
	user, host string
	port       int
}

// parseHop parses [user@]host[:port] or ssh://[user@]host[:port].
func parseHop(s string) (hop, error) {
	invalid := fmt.Errorf("%q: must be [user@]host[:port]", s)
	rest := s
	if strings.HasPrefix(s, "ssh://") {
		u, err := url.Parse(s)
		if err != nil || u.Path != "" && u.Path != "/" || u.RawQuery != "" {
			return hop{}, invalid
		}
		rest = u.Host
		if name := u.User.Username(); name != "" {
			rest = name + "@" + rest
		}
	}
	var h hop
	if at := strings.LastIndex(rest, "@"); at >= 0 {
		h.user, rest = rest[:at], rest[at+1:]
		if h.user == "" {
			return hop{}, invalid
		}
	}
	h.host = rest
	if strings.HasPrefix(rest, "[") || strings.Count(rest, ":") == 1 {
		host, port, err := net.SplitHostPort(rest)
		switch {
		case err == nil:
			n, err := strconv.ParseUint(port, 10, 16)
			if err != nil || n == 0 {
				return hop{}, invalid
			}
			h.host, h.port = host, int(n)
		case strings.HasPrefix(rest, "[") && strings.HasSuffix(rest, "]"):
			h.host = rest[1 : len(rest)-1]
		default:
			return hop{}, invalid
		}
	}
	if h.host == "" || strings.ContainsAny(h.host, " \t@/[]") || !isPlainHost(h.host) || !isPlainUser(h.user) {
		return hop{}, invalid
	}
	return h, nil
}

// resolveRoute returns the hosts on the route, the host itself last.
func (c *Client) resolveRoute(ctx context.Context) ([]*target, error) {
	host, err := c.cfg.resolve(ctx, hop{user: c.cfg.User, host: c.cfg.Host, port: c.cfg.Port}, false)
	if err != nil {
		return nil, err
	}
	jumps := c.cfg.JumpHosts
	if len(jumps) == 0 {
		jumps = splitJumps(host.jump)
	}
	route := []*target{host}
	// The first jump host may itself be behind others, according to its own entry in ssh_config; each of the others is
	// reached from the one before it.
	for len(jumps) > 0 {
		var first *target
		for _, jump := range slices.Backward(jumps) {
			h, err := parseHop(jump)
			if err != nil {
				return nil, configError("ProxyJump for %s: %w", host.alias, err)
			}
			if first, err = c.cfg.resolve(ctx, h, true); err != nil {
				return nil, err
			}
			route = append(route, first)
			if len(route) > maxHops {
				return nil, configError("more than %d jump hosts to %s: does ProxyJump loop?", maxHops-1, host.alias)
			}
		}
		jumps = splitJumps(first.jump)
	}
	slices.Reverse(route)
	return route, nil
}

func splitJumps(jump string) []string {
	if jump == "" || jump == noFile {
		return nil
	}
	return strings.Split(jump, ",")
}

// connect makes the connection, through jump hosts or directly.
func (c *Client) connect(ctx context.Context) (*chain, error) {
	t, via, release := c.jump, c.via, func() {}
	if t == nil {
		route, err := c.resolveRoute(ctx)
		if err != nil {
			return nil, &Error{Host: c.cfg.Host, Op: "reading the configuration", Kind: ErrConfig, Err: err}
		}
		t = route[len(route)-1]
		via, release = c.cfg.Jumps.acquireRoute(c, route[:len(route)-1])
	}
	server := t.address()
	if via != nil {
		// A jump host has a time limit of its own.
		if _, err := via.sharedConnection(ctx); err != nil {
			release()
			return nil, c.explainError(ctx, t, "connecting", err)
		}
		server += " through " + via.jump.String()
	}
	l, err := retryDropped(ctx, func() (*link, error) {
		done, err := limitHandshakes(ctx, server)
		if err != nil {
			return nil, err
		}
		defer done()
		return c.connectHop(ctx, t, via)
	})
	if err != nil {
		err = c.explainError(ctx, t, "connecting", err)
	}
	c.refused.noteOutcome(err) // A jump host's refusal is the jump host's alone.
	if err != nil {
		release()
		return nil, err
	}
	ch := &chain{link: l, release: release}
	ch.watchConnection()
	return ch, nil
}

// connectHop dials one host, through another host or directly, and logs in.
func (c *Client) connectHop(ctx context.Context, t *target, via *Client) (*link, error) {
	keys, err := loadHostKeys(t, c.log)
	if err != nil {
		return nil, err
	}
	ctx, deadline := withDeadline(ctx, t.connectTimeout)
	defer deadline.stop()
	raw, err := dialHop(ctx, t, via)
	if err != nil {
		return nil, deadline.explain("dialling", err)
	}
	conn := &watchedConn{Conn: raw}
	// The handshake accepts no context: closing the connection that it reads from ends it.
	unblock := context.AfterFunc(ctx, func() { _ = raw.Close() })
	defer unblock()

	auth := newAuthenticator(ctx, &c.cfg, t, c.jump != nil, keys.isVerified, &conn.broken)
	defer auth.close()
	var exchanged sync.Once
	var keyShown atomic.Bool
	config := &xssh.ClientConfig{
		Config: xssh.Config{
			Ciphers: t.algorithms.ciphers, MACs: t.algorithms.macs, KeyExchanges: t.algorithms.keyExchanges,
		},
		User:              t.user,
		AuthCallback:      auth.nextCredential,
		HostKeyAlgorithms: keys.algorithmOrder(),
		HostKeyCallback: func(_ string, _ net.Addr, key xssh.PublicKey) error {
			keyShown.Store(true)
			if err := keys.checkKey(key); err != nil {
				return err
			}
			exchanged.Do(func() { deadline.extend(max(authTimeout, t.connectTimeout)) })
			return nil
		},
	}
	sshConn, channels, requests, err := xssh.NewClientConn(conn, t.address(), config)
	if err != nil {
		dropped := t.proxy == "" && !keyShown.Load() && conn.broken.Load() && ctx.Err() == nil
		_ = raw.Close()
		if err = handshakeCause(err, keys, auth); dropped {
			err = fmt.Errorf("%w (%w)", ErrDropped, err)
		}
		return nil, deadline.explain("handshake", err)
	}
	if !unblock() {
		_ = sshConn.Close()
		return nil, deadline.explain("handshake", context.Cause(ctx))
	}
	return newLink(t, xssh.NewClient(sshConn, channels, requests), conn, c.cfg.HelperURI, c.log), nil
}

func dialHop(ctx context.Context, t *target, via *Client) (net.Conn, error) {
	if via != nil {
		return via.dialTCP(ctx, t.host, t.port)
	}
	if t.proxy != "" {
		return dialProxy(ctx, t.proxy)
	}
	return (&net.Dialer{}).DialContext(ctx, t.network, t.address())
}

// handshakeCause returns why a handshake failed: the errors of our own checks are more precise than the protocol's.
func handshakeCause(err error, keys *hostKeys, auth *authenticator) error {
	if refused := keys.refusalCause(); refused != nil {
		return &kindError{kind: ErrHostKey, err: refused}
	}
	if errors.Is(err, errConnectionLost) {
		return &kindError{kind: ErrUnreachable, err: auth.failureOfAll(err)}
	}
	if auth.started {
		return &kindError{kind: ErrAuth, err: auth.failureOfAll(err)}
	}
	return err
}

// deadline ends a context after a time that may be extended later, and records that it did.
type deadline struct {
	ctx     context.Context
	cancel  context.CancelCauseFunc
	timer   *time.Timer
	mu      sync.Mutex
	timeout time.Duration
}

var errTimeout = errors.New("no answer in time")

func withDeadline(ctx context.Context, timeout time.Duration) (context.Context, *deadline) {
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(timeout, func() { cancel(errTimeout) })
	return ctx, &deadline{ctx: ctx, cancel: cancel, timer: timer, timeout: timeout}
}

func (d *deadline) extend(timeout time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer.Stop() {
		d.timeout = timeout
		d.timer.Reset(timeout)
	}
}

func (d *deadline) stop() {
	d.timer.Stop()
	d.cancel(nil)
}

// explain returns the end of the deadline or of the context rather than the error that it caused.
func (d *deadline) explain(what string, err error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	cause := context.Cause(d.ctx)
	switch {
	case errors.Is(cause, errTimeout):
		return fmt.Errorf("%s: %w after %s", what, errTimeout, d.timeout)
	case cause != nil:
		return fmt.Errorf("%s: %w", what, cause)
	case !errors.Is(kindOf(err), ErrUnreachable):
		return err
	}
	return fmt.Errorf("%s: %w", what, err)
}
