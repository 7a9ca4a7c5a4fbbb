package ssh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"time"

	xssh "golang.org/x/crypto/ssh"
)

// ListenUnix makes the host listen on a unix socket at an absolute path and accepts the connections to it, until the
// listener is closed or the connection to the host is lost. The socket belongs to the user who logged in; apart from
// that user only root may connect to it. An existing socket is removed first. OpenSSH doesn't remove its sockets: call
// RemoveUnix after closing the listener.
//
// Errors are of kind ErrForwarding if the server refuses to listen, by its settings or because it can't; otherwise they
// are those of DialUnix. The context bounds the opening, not the listener.
func (c *Client) ListenUnix(ctx context.Context, path string) (net.Listener, error) {
	if err := c.RemoveUnix(ctx, path); err != nil {
		return nil, err
	}
	return throughLink(ctx, c, "listening on "+path, 0, func(ctx context.Context, l *link) (net.Listener, error) {
		return l.listenUnix(ctx, path)
	})
}

// RemoveUnix removes the unix socket at an absolute path on the host, by a program there. It is no error if there is
// none, and a file that isn't a socket stays.
func (c *Client) RemoveUnix(ctx context.Context, path string) error {
	if err := checkSocketPath(path); err != nil {
		return err
	}
	_, err := throughLink(ctx, c, "removing "+path, commandLimit, func(ctx context.Context, l *link) (struct{}, error) {
		return struct{}{}, l.removeUnix(ctx, path)
	})
	return err
}

// Answers reports whether a TCP port answers, as the host reaches it: whether a connection from the host is accepted or
// refused, rather than lost. patience is how long the answer may take to reach the host, which is then asked whether
// the answer has come: while the host or this process is suspended, no packet counts as lost. If the host's server
// forbids such connections, Answers returns true. Errors are those of reaching the host.
func (c *Client) Answers(ctx context.Context, host string, port int, patience time.Duration) (bool, error) {
	op := fmt.Sprintf("asking port %d of %s", port, host)
	// It bounds itself, in a way that a suspended process doesn't mislead.
	return throughLink(ctx, c, op, time.Hour, func(ctx context.Context, l *link) (bool, error) {
		asking, giveUp := context.WithCancel(ctx)
		defer giveUp()
		l.spawn(func() {
			defer giveUp()
			l.ping(asking) // When it has answered this, the host has begun to connect.
			rest := time.NewTimer(patience)
			defer rest.Stop()
			select {
			case <-rest.C:
			case <-asking.Done():
			}
			l.ping(asking)
		})
		conn, err := l.dialTCP(asking, host, port)
		switch {
		case err == nil:
			return true, conn.Close()
		case isOpenError(err):
			return true, nil
		case asking.Err() != nil && ctx.Err() == nil:
			return false, nil
		}
		return false, err
	})
}

func checkSocketPath(path string) error {
	if !strings.HasPrefix(path, "/") || strings.ContainsAny(path, "\x00\n\r") {
		return configError("socket path %q: must be absolute, on one line", path)
	}
	return nil
}

// removeUnix makes the host's shell remove a socket.
func (l *link) removeUnix(ctx context.Context, path string) error {
	cmd, err := l.startCommand(ctx, boundedScript(`if test -S "$1"; then rm -f "$1"; fi`, commandLimit, path))
	if err != nil {
		return err
	}
	defer func() { _ = cmd.channel.Close() }()
	if err := cmd.awaitEnd(ctx, l); err != nil {
		return err
	}
	if outcome := cmd.exitText(); outcome != "" {
		return &kindError{kind: ErrSocket, err: errors.New(outcome)}
	}
	return nil
}

// listenUnix opens a listener until ctx ends. A listener that opens after that is closed again.
func (l *link) listenUnix(ctx context.Context, path string) (net.Listener, error) {
	type result struct {
		listener net.Listener
		err      error
	}
	results := make(chan result, 1)
	l.spawn(func() {
		listener, err := l.client.ListenUnix(path)
		results <- result{listener, err}
	})
	select {
	case r := <-results:
		if r.err == nil {
			return &listener{link: l, inner: r.listener}, nil
		}
		if err := l.brokenCause(); err != nil {
			return nil, err
		}
		// The library has one text for every refusal, and the server doesn't say why.
		return nil, &kindError{kind: ErrForwarding, err: fmt.Errorf("the server refuses to listen on this socket: "+
			"AllowStreamLocalForwarding in its sshd_config must be yes or remote, and the user must be allowed to "+
			"create a file there (%w)", r.err)}
	case <-ctx.Done():
	}
	l.spawn(func() {
		if r := <-results; r.err == nil {
			_ = r.listener.Close()
		}
	})
	return nil, context.Cause(ctx)
}

// listener is a socket on the host on which the host's SSH server listens.
type listener struct {
	link   *link
	inner  net.Listener
	closed atomic.Bool
}

// Accept waits for the next connection. After Close it returns net.ErrClosed; after the loss of the connection to the
// host, the cause of the loss.
func (l *listener) Accept() (net.Conn, error) {
	conn, err := l.inner.Accept()
	if err != nil {
		if errors.Is(err, io.EOF) && l.closed.Load() {
			return nil, net.ErrClosed
		}
		return nil, l.link.markBroken(err)
	}
	channel, ok := conn.(xssh.Channel)
	if !ok {
		return nil, errors.Join(errors.New("the SSH library's connections are no channels any more"), conn.Close())
	}
	return l.link.newStream(channel, addr{network: "unix", name: l.inner.Addr().String()}), nil
}

// Close makes the host stop listening. Accepted connections stay open.
func (l *listener) Close() error {
	l.closed.Store(true)
	closed := make(chan error, 1)
	l.link.spawn(func() { closed <- l.inner.Close() })
	patience := time.NewTimer(lingerTimeout)
	defer patience.Stop()
	select {
	case err := <-closed:
		return err
	case <-patience.C:
		return &kindError{kind: ErrUnreachable, err: fmt.Errorf("%w for %s", errNoLife, lingerTimeout)}
	}
}

// Addr returns the socket on the host.
func (l *listener) Addr() net.Addr { return l.inner.Addr() }
