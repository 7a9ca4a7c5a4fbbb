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

// ListenUnix makes the host listen on a unix socket at an absolute path and takes the connections that are made there,
// until the listener is closed or the connection to the host is lost. The socket belongs to the user who logged in, and
// only root may connect to it, too. One that was left there is removed first. OpenSSH leaves its sockets behind:
// call RemoveUnix after closing the listener.
//
// Errors are of kind ErrForwarding when the server refuses to listen there, be it on principle, be it because it can't;
// otherwise they are those of DialUnix. The context bounds the opening, not the listener.
func (c *Client) ListenUnix(ctx context.Context, path string) (net.Listener, error) {
	if err := c.RemoveUnix(ctx, path); err != nil {
		return nil, err
	}
	return throughLink(ctx, c, "listening on "+path, func(l *link) (net.Listener, error) {
		return l.listenUnix(ctx, path)
	})
}

// RemoveUnix removes the unix socket at an absolute path on the host, by a program there. It is no error if there is
// none, and what isn't a socket stays.
func (c *Client) RemoveUnix(ctx context.Context, path string) error {
	if err := checkSocketPath(path); err != nil {
		return err
	}
	_, err := throughLink(ctx, c, "removing "+path, func(l *link) (struct{}, error) {
		return struct{}{}, l.removeUnix(ctx, path)
	})
	return err
}

// Answers says whether a TCP port answers, as the host reaches it: whether a connection from there is accepted or
// refused, rather than lost. Patience is how long the answer may take on its way to the host, which says then whether
// it has come: while the host or this process stands still, nothing is taken for lost. Where the host's server forbids
// to ask, it says that the port does. Errors are those of reaching the host.
func (c *Client) Answers(ctx context.Context, host string, port int, patience time.Duration) (bool, error) {
	return throughLink(ctx, c, fmt.Sprintf("asking port %d of %s", port, host), func(l *link) (bool, error) {
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

// removeUnix has the host's shell remove a socket.
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

// listenUnix opens a listener under a context. One that opens after that is closed again.
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
		// The library has one text for every refusal, and the server gives no reason.
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

// listener is a socket on the host on which its SSH server listens.
type listener struct {
	link   *link
	inner  net.Listener
	closed atomic.Bool
}

// Accept waits for the next connection. After Close its error is net.ErrClosed, after the loss of the connection to the
// host it says why that ended.
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

// Close makes the host listen no more. Connections that were accepted go on.
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

// Addr is the socket on the host.
func (l *listener) Addr() net.Addr { return l.inner.Addr() }
