package ssh

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	xssh "golang.org/x/crypto/ssh"
)

// TestKeepalive_findsADeadPeer runs in its own time, in which a peer answers at once or never: how long the computer
// takes plays no part.
func TestKeepalive_findsADeadPeer(t *testing.T) {
	t.Parallel()
	key := newKey(t, "ed25519")
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := newWire(), newWire()
		served := make(chan struct{})
		go func() {
			defer close(served)
			config := noAuthServer()
			config.AddHostKey(key.signer)
			serveMethods(wireEnd{in: ours, out: theirs}, config, nil)
		}()
		conn := &watchedConn{Conn: wireEnd{in: theirs, out: ours}}
		sshConn, channels, requests, err := xssh.NewClientConn(conn, "kvm1", &xssh.ClientConfig{
			User: "alice", HostKeyCallback: xssh.FixedHostKey(key.signer.PublicKey()),
		})
		noError(t, err)
		to := &target{keepaliveInterval: time.Second, keepaliveCountMax: 3, connectTimeout: time.Minute}
		l := newLink(to, xssh.NewClient(sshConn, channels, requests), conn, "", slog.New(slog.DiscardHandler))
		stream, err := l.dialTCP(t.Context(), "localhost", 1)
		noError(t, err)

		// A silent connection whose peer answers stays.
		noError(t, stream.SetReadDeadline(time.Now().Add(time.Minute)))
		if _, err := stream.Read(make([]byte, 1)); !isTimeout(err) {
			t.Fatalf("reading while nothing comes: got %v, want a timeout", err)
		}
		noError(t, stream.SetReadDeadline(time.Time{}))
		exchange(t, stream)

		theirs.freeze()
		frozen := time.Now()
		if _, err := stream.Read(make([]byte, 1)); !errors.Is(err, ErrUnreachable) || !errors.Is(err, errNoLife) {
			t.Errorf("reading from the dead peer: got %v, want %v", err, errNoLife)
		}
		if took := time.Since(frozen); took < 3*time.Second || took > 5*time.Second {
			t.Errorf("the peer was given up after %s, want 3 intervals and what is left of one", took)
		}
		_ = stream.Close()
		l.running.Wait()
		<-served
	})
}

// wire carries bytes in one direction, in memory.
type wire struct {
	mu             sync.Mutex
	changed        *sync.Cond
	text           bytes.Buffer
	closed, frozen bool
}

func newWire() *wire {
	w := &wire{}
	w.changed = sync.NewCond(&w.mu)
	return w
}

// freeze lets nothing arrive any more.
func (w *wire) freeze() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.frozen = true
}

// wireEnd is one end of a connection over two wires.
type wireEnd struct {
	net.Conn // For addresses and deadlines, which aren't asked for.
	in, out  *wire
}

func (e wireEnd) Read(p []byte) (int, error) {
	e.in.mu.Lock()
	defer e.in.mu.Unlock()
	for !e.in.closed && (e.in.frozen || e.in.text.Len() == 0) {
		e.in.changed.Wait()
	}
	if e.in.closed {
		return 0, io.EOF
	}
	return e.in.text.Read(p)
}

func (e wireEnd) Write(p []byte) (int, error) {
	e.out.mu.Lock()
	defer e.out.mu.Unlock()
	if e.out.closed {
		return 0, io.ErrClosedPipe
	}
	defer e.out.changed.Broadcast()
	return e.out.text.Write(p)
}

func (e wireEnd) Close() error {
	for _, w := range []*wire{e.in, e.out} {
		w.mu.Lock()
		w.closed = true
		w.changed.Broadcast()
		w.mu.Unlock()
	}
	return nil
}

func (wireEnd) LocalAddr() net.Addr  { return addr{network: "memory", name: "near"} }
func (wireEnd) RemoteAddr() net.Addr { return addr{network: "memory", name: "far"} }
