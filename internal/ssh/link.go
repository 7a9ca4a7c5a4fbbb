package ssh

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	xssh "golang.org/x/crypto/ssh"
)

// chain is the connection to a host, together with its share of the jump host's connection.
type chain struct {
	link    *link
	release func() // Releases the jump host.
	watcher sync.WaitGroup
}

// isLost reports whether the connection is no longer usable.
func (c *chain) isLost() bool {
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	return c.link.ended
}

// watchConnection releases the jump host when the connection ends.
func (c *chain) watchConnection() {
	c.watcher.Go(func() {
		<-c.link.done
		c.release()
	})
}

// close ends the connection, and waits for everything that runs on it.
func (c *chain) close(cause error) {
	c.link.closeWith(cause)
	<-c.link.done
	c.link.running.Wait()
	c.watcher.Wait()
}

var (
	errConnectionLost = &kindError{kind: ErrUnreachable, err: errors.New("the SSH connection was lost")}
	errNoLife         = errors.New("no sign of life from the host")
)

// link is one SSH connection with the streams that go through it.
type link struct {
	target    *target
	client    *xssh.Client
	conn      *watchedConn
	helperURI string
	log       *slog.Logger
	forwarded atomic.Int32 // What is known about forwarding to sockets: forwardingUnknown and so on.
	sessions  atomic.Int32 // How many programs run on the host.
	done      chan struct{}
	running   sync.WaitGroup

	mu      sync.Mutex
	ended   bool
	cause   error // Why it ended.
	streams map[*stream]struct{}
}

func newLink(t *target, client *xssh.Client, conn *watchedConn, helperURI string, log *slog.Logger) *link {
	l := &link{
		target: t, client: client, conn: conn, helperURI: helperURI, log: log,
		done: make(chan struct{}), streams: map[*stream]struct{}{},
	}
	l.spawn(func() {
		_ = l.markBroken(client.Wait())
		close(l.done)
	})
	if t.keepaliveInterval > 0 && t.keepaliveCountMax > 0 {
		l.spawn(l.keepalive)
	}
	return l
}

// spawn starts a goroutine that chain.close waits for. A goroutine that is started after the link has ended ends at
// once.
func (l *link) spawn(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		go f()
		return
	}
	l.running.Go(f)
}

// closeWith closes the connection and everything on it. Streams report the first cause.
func (l *link) closeWith(cause error) {
	l.mu.Lock()
	if l.ended {
		l.mu.Unlock()
		return
	}
	l.ended, l.cause = true, cause
	streams := l.streams
	l.streams = nil
	l.mu.Unlock()
	_ = l.client.Close()
	for s := range streams {
		s.abort(cause)
	}
}

// markBroken ends the link because of an error that means a lost connection, whichever caller sees it first, and
// returns why the link ended.
func (l *link) markBroken(err error) error {
	l.closeWith(&kindError{kind: ErrUnreachable, err: fmt.Errorf("the SSH connection was lost: %w", err)})
	return l.endCause(errConnectionLost)
}

// endCause returns why the link ended, or the error if it hasn't.
func (l *link) endCause(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return l.cause
	}
	return err
}

// brokenCause returns why the link ended if its connection has broken, and otherwise nil. Without it, streams through a
// broken link would seem to have been ended by the peer.
func (l *link) brokenCause() error {
	if !l.conn.broken.Load() {
		return nil
	}
	<-l.done
	return l.endCause(errConnectionLost)
}

// keepalive sends a keepalive request when the host has been silent, and ends the link if no answer comes.
func (l *link) keepalive() {
	interval := l.target.keepaliveInterval
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	asked := make(chan struct{}, 1) // Holds a token while a request is unanswered.
	missed := 0
	for last := l.conn.received.Load(); ; {
		select {
		case <-l.done:
			return
		case <-ticker.C:
		}
		now := l.conn.received.Load()
		if now != last {
			last, missed = now, 0
			continue
		}
		if missed >= l.target.keepaliveCountMax {
			silence := interval * time.Duration(missed+1)
			l.closeWith(&kindError{kind: ErrUnreachable, err: fmt.Errorf("%w for %s", errNoLife, silence)})
			return
		}
		missed++
		select {
		case asked <- struct{}{}:
			l.spawn(func() {
				l.requestLife()
				<-asked
			})
		default:
		}
	}
}

// ping sends the host a request, and returns when it has answered, or should have. The host answers requests in order:
// it has sent all answers to earlier requests that it had by then.
func (l *link) ping(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, l.target.connectTimeout)
	defer cancel()
	answered := make(chan struct{})
	l.spawn(func() {
		defer close(answered)
		l.requestLife()
	})
	select {
	case <-answered:
	case <-ctx.Done():
	}
}

// requestLife sends a keepalive request. Any answer counts, a refusal as well.
func (l *link) requestLife() { _, _, _ = l.client.SendRequest("keepalive@openssh.com", true, nil) }

// openChannel opens a channel until ctx ends. A channel that opens after that is closed again.
func (l *link) openChannel(
	ctx context.Context, kind string, payload []byte,
) (xssh.Channel, <-chan *xssh.Request, error) {
	type result struct {
		channel  xssh.Channel
		requests <-chan *xssh.Request
		err      error
	}
	results := make(chan result, 1)
	if ctx.Err() != nil {
		return nil, nil, context.Cause(ctx) // Not left to chance below.
	}
	begin, received := time.Now(), l.conn.received.Load()
	l.spawn(func() {
		channel, requests, err := l.client.OpenChannel(kind, payload)
		results <- result{channel, requests, err}
	})
	opened := func(r result) (xssh.Channel, <-chan *xssh.Request, error) {
		if r.err != nil && !isOpenError(r.err) {
			r.err = l.markBroken(r.err) // No answer means the end of the link.
		}
		return r.channel, r.requests, r.err
	}
	select {
	case r := <-results:
		return opened(r)
	case <-ctx.Done():
	}
	select {
	case r := <-results:
		return opened(r) // In the same moment.
	default:
	}
	if time.Since(begin) >= l.target.connectTimeout && l.conn.received.Load() == received {
		// The host should have answered in that time. End the link, so that the next request makes a new connection instead
		// of waiting for keepalive to detect the loss.
		l.closeWith(&kindError{kind: ErrUnreachable, err: fmt.Errorf("%w for %s", errNoLife, time.Since(begin))})
	}
	l.spawn(func() {
		if r := <-results; r.err == nil {
			go xssh.DiscardRequests(r.requests)
			_ = r.channel.Close()
		}
	})
	return nil, nil, context.Cause(ctx)
}

func isOpenError(err error) bool {
	var open *xssh.OpenChannelError
	return errors.As(err, &open)
}

// dialTCP opens a stream to an address as seen from the host.
func (l *link) dialTCP(ctx context.Context, host string, port int) (net.Conn, error) {
	payload := xssh.Marshal(struct {
		Host       string
		Port       uint32
		OriginHost string
		OriginPort uint32
	}{host, uint32(port), "127.0.0.1", 0})
	channel, requests, err := l.openChannel(ctx, "direct-tcpip", payload)
	if err != nil {
		return nil, err
	}
	go xssh.DiscardRequests(requests)
	return l.newStream(channel, addr{network: "tcp", name: l.target.address()}), nil
}

// watchedConn counts the received data, which shows that the peer isn't silent, and acknowledges it without delay.
type watchedConn struct {
	net.Conn
	received atomic.Int64
	broken   atomic.Bool
}

func (c *watchedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.received.Add(int64(n))
	if n < len(p) { // No more data is there now, so the server may be waiting.
		acknowledgeNow(c.Conn)
	}
	if err != nil {
		c.broken.Store(true)
	}
	return n, err
}
