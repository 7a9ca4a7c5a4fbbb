package ssh

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"

	xssh "golang.org/x/crypto/ssh"
)

// lingerTimeout is how long a closed stream may take to deliver what was written to it before.
const lingerTimeout = 5 * time.Second

// stream makes a net.Conn of a channel. An SSH channel has no deadlines, and its reads and writes end only when the
// peer ends them; two pipes in between, one for each direction, provide both.
type stream struct {
	local, remote addr
	link          *link
	channel       xssh.Channel
	in, out       net.Conn     // Our ends: what comes from the host, what goes to it.
	inFar, outFar net.Conn     // The ends that the channel is copied to and from.
	exit          func() error // Why the peer ended the stream; nil for an orderly end. May be nil.

	mu      sync.Mutex
	cause   error // Why the stream ended, unless it ended in an orderly way.
	closed  bool  // Whether Close was called.
	flushed bool  // Whether everything written has gone to the channel.
	linger  *time.Timer
}

// addr is a place on the host.
type addr struct{ network, name string }

func (a addr) Network() string { return a.network }
func (a addr) String() string  { return a.name }

// newStream starts copying between a channel and the stream that it returns.
func (l *link) newStream(channel xssh.Channel, remote addr) *stream {
	return l.newStreamWithExit(channel, remote, nil)
}

func (l *link) newStreamWithExit(channel xssh.Channel, remote addr, exit func() error) *stream {
	s := &stream{
		link: l, channel: channel, remote: remote, exit: exit,
		local: addr{network: remote.network, name: l.target.String()},
	}
	s.in, s.inFar = net.Pipe()
	s.out, s.outFar = net.Pipe()
	l.mu.Lock()
	ended, cause := l.ended, l.cause
	if !ended {
		l.streams[s] = struct{}{}
	}
	l.mu.Unlock()
	if ended {
		s.abort(cause)
	}
	var copying sync.WaitGroup
	copying.Go(func() {
		_, err := io.Copy(s.inFar, s.channel)
		if broken := l.brokenCause(); broken != nil {
			s.abort(broken)
		}
		if err == nil && s.exit != nil {
			err = s.exit()
		}
		s.setCause(err)
		_ = s.inFar.Close()
	})
	copying.Go(func() {
		_, _ = io.Copy(s.channel, s.outFar)
		_ = s.outFar.Close()
		s.closeWriting()
	})
	l.spawn(func() {
		copying.Wait()
		_ = s.channel.Close()
		s.releaseBuffers()
	})
	return s
}

// closeWriting closes the channel for writing, after everything written was sent.
func (s *stream) closeWriting() {
	s.mu.Lock()
	s.flushed = true
	closed := s.closed
	s.mu.Unlock()
	if closed {
		_ = s.channel.Close()
		return
	}
	_ = s.channel.CloseWrite()
}

// releaseBuffers releases everything that the stream holds.
func (s *stream) releaseBuffers() {
	s.mu.Lock()
	if s.linger != nil {
		s.linger.Stop()
	}
	s.mu.Unlock()
	s.link.mu.Lock()
	defer s.link.mu.Unlock()
	delete(s.link.streams, s)
}

func (s *stream) setCause(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cause == nil && err != nil && !errors.Is(err, io.ErrClosedPipe) {
		s.cause = err
	}
}

// abort ends the stream for both sides, writing first: a caller that sees the end of reading can't write any more.
func (s *stream) abort(cause error) {
	s.setCause(cause)
	for _, end := range []net.Conn{s.out, s.outFar, s.in, s.inFar} {
		_ = end.Close()
	}
}

// explain replaces the pipe's error for an end by the stream's.
func (s *stream) explain(err error) error {
	if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrClosedPipe) {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.cause != nil:
		return s.cause
	case errors.Is(err, io.ErrClosedPipe):
		return net.ErrClosed
	}
	return err
}

func (s *stream) Read(p []byte) (int, error) {
	n, err := s.in.Read(p)
	if err != nil {
		err = s.explain(err)
	}
	return n, err
}

// Write hands data over to the connection. An empty write returns when all data before it was sent.
func (s *stream) Write(p []byte) (int, error) {
	n, err := s.out.Write(p)
	if err != nil {
		err = s.explain(err)
	}
	return n, err
}

// CloseWrite tells the peer that no more data follows.
func (s *stream) CloseWrite() error { return s.out.Close() }

// Close ends the stream. Data that was written before is still delivered, for a short time.
func (s *stream) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return net.ErrClosed
	}
	s.closed = true
	if s.cause == nil {
		s.cause = net.ErrClosed
	}
	_ = s.in.Close()
	_ = s.out.Close()
	if s.flushed {
		// Closing a channel may have to wait for the connection, but no caller should have to wait for that.
		s.link.spawn(func() { _ = s.channel.Close() })
		return nil
	}
	// A peer that stops reading must not keep the channel for ever.
	s.linger = time.AfterFunc(lingerTimeout, func() { _ = s.channel.Close() })
	return nil
}

func (s *stream) LocalAddr() net.Addr  { return s.local }
func (s *stream) RemoteAddr() net.Addr { return s.remote }

func (s *stream) SetDeadline(t time.Time) error {
	return errors.Join(s.in.SetDeadline(t), s.out.SetDeadline(t))
}
func (s *stream) SetReadDeadline(t time.Time) error  { return s.in.SetReadDeadline(t) }
func (s *stream) SetWriteDeadline(t time.Time) error { return s.out.SetWriteDeadline(t) }
