package ssh

import (
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	xssh "golang.org/x/crypto/ssh"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab/expiry"
)

func TestDialUnix_sharesOneConnection(t *testing.T) {
	t.Parallel()
	key := newKey(t, "ed25519")
	server := startSSHD(t, key.authorized())
	client := newClient(t, server.config(t, key))
	socket := echoSocket(t)
	var dials sync.WaitGroup
	for range 8 {
		dials.Go(func() { checkEcho(t, client, socket) })
	}
	dials.Wait()
	checkEcho(t, client, socket)
	if int(client.connects.Load()) != 1 || server.connections() != 1 {
		t.Errorf("got %d connects and %d connections, want 1", int(client.connects.Load()), server.connections())
	}
}

func TestDialUnix_reconnectsAfterLoss(t *testing.T) {
	t.Parallel()
	key := newKey(t, "ed25519")
	server := startSSHD(t, key.authorized())
	proxy := startProxy(t, server.addr)
	cfg := server.config(t, key)
	cfg.Port, cfg.ConfigFile = proxy.port(), writeFile(t, "HostKeyAlias "+server.name()+"\n")
	client := newClient(t, cfg)
	socket := echoSocket(t)
	for round := 1; round <= 3; round++ {
		conn, err := client.DialUnix(t.Context(), socket)
		noError(t, err)
		exchange(t, conn)
		if int(client.connects.Load()) != round {
			t.Fatalf("round %d: got %d connects", round, int(client.connects.Load()))
		}
		if round == 2 {
			server.kill()
		}
		proxy.cut()
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, ErrUnreachable) {
			t.Errorf("reading from the lost connection: got %v, want %v", err, ErrUnreachable)
		}
		if _, err := conn.Write(make([]byte, 1)); err == nil {
			t.Error("writing to the lost connection succeeded")
		}
		noError(t, conn.Close())
	}
	_ = proxy.listener.Close()
	if _, err := client.DialUnix(t.Context(), socket); !errors.Is(err, ErrUnreachable) {
		t.Errorf("nothing listens any more: got %v, want %v", err, ErrUnreachable)
	}
}

func TestDialUnix_givesUpOnAConnectionThatAnswersNothing(t *testing.T) {
	t.Parallel()
	key := newKey(t, "ed25519")
	server := startSSHD(t, key.authorized())
	proxy := startProxy(t, server.addr)
	cfg := server.config(t, key)
	cfg.Port, cfg.ConfigFile = proxy.port(), writeFile(t, "HostKeyAlias "+server.name()+"\n")
	cfg.KeepaliveInterval = time.Hour
	client := newClient(t, cfg)
	socket := echoSocket(t)
	conn, err := client.DialUnix(t.Context(), socket)
	noError(t, err)
	defer func() { _ = conn.Close() }()
	exchange(t, conn) // It stays open: nothing is under way that could arrive after the freezing.

	proxy.freeze()
	// Making the connection may take its time; only from here on is the host called silent at once.
	client.chain.link.target.connectTimeout = 1
	ctx, expire := expiry.Context(t)
	go func() {
		proxy.awaitHeld()
		expire()
	}()
	if _, err := client.DialUnix(ctx, socket); !errors.Is(err, ErrUnreachable) {
		t.Errorf("got %v, want %v", err, ErrUnreachable)
	}
	proxy.thaw()
	checkEcho(t, client, socket)
	if int(client.connects.Load()) != 2 {
		t.Errorf("got %d connects, want 2", int(client.connects.Load()))
	}
}

// TestRequests_endWithoutAnAnswer: a host that lets us in and answers keepalive requests may still never open a stream,
// or never start a program. No caller's context has to end for that to be seen.
func TestRequests_endWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	key := newKey(t, "ed25519")
	silent := startMethodServer(t, noAuthServer(), func(xssh.NewChannel) bool { return true })
	hanging := startSSHD(t, key.authorized(), "ForceCommand read x")
	for name, cfg := range map[string]Config{
		"no channel is opened": silent.config(t), "no program starts": hanging.config(t, key),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := newClient(t, cfg)
			client.answerTimeout = 50 * time.Millisecond
			requests := map[string]func() error{
				"session": func() error { _, err := client.DialSession(t.Context()); return err },
			}
			if name == "no channel is opened" {
				requests["stream"] = func() error { _, err := client.DialUnix(t.Context(), "/run/any"); return err }
			}
			for what, ask := range requests {
				err := ask()
				if !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), "no answer in time after 50ms") {
					t.Errorf("%s: got %v", what, err)
				}
			}
			if int(client.connects.Load()) != 1 {
				t.Errorf("got %d connects, want 1", int(client.connects.Load()))
			}
		})
	}
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

func TestDialUnix_endsWithItsContext(t *testing.T) {
	t.Parallel()
	silent := startSilence(t)
	client := newClient(t, Config{
		Host: "127.0.0.1", Port: silent, ConfigFile: "none", Agent: new(bool), ConnectTimeout: patience,
	})

	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := client.DialUnix(ctx, "/run/any")
	if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, ErrUnreachable) {
		t.Errorf("after the deadline: got %v, want %v and %v", err, context.DeadlineExceeded, ErrUnreachable)
	}
	ctx, cancel = context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	_, err = client.DialUnix(ctx, "/run/any")
	if !errors.Is(err, context.Canceled) || errors.Is(err, ErrUnreachable) {
		t.Errorf("after cancelling: got %v, want %v alone", err, context.Canceled)
	}
}

func TestDialUnix_givesUpOnAStalledServer(t *testing.T) {
	t.Parallel()
	key := newKey(t, "ed25519")
	server := startSSHD(t, key.authorized())
	silent := startSilence(t)
	cfg := server.config(t, key)
	cfg.ConnectTimeout = 100 * time.Millisecond
	cfg.Port = silent
	_, err := newClient(t, cfg).DialUnix(t.Context(), "/run/any")
	if !errors.Is(err, ErrUnreachable) || !errors.Is(err, errTimeout) {
		t.Errorf("got %v, want %v", err, errTimeout)
	}
	// The same behind a jump host, where closing isn't enough to end a read.
	cfg.HostKeyChecking, cfg.KnownHostsFile = HostKeyAcceptNew, filepath.Join(t.TempDir(), "known_hosts")
	cfg.JumpHosts = []string{cfg.User + "@" + server.addr.String()}
	cfg.ConnectTimeout = 2 * time.Second
	_, err = newClient(t, cfg).DialUnix(t.Context(), "/run/any")
	if !errors.Is(err, ErrUnreachable) || !errors.Is(err, errTimeout) {
		t.Errorf("behind a jump host: got %v, want %v", err, errTimeout)
	}
}

func TestDialUnix_doesNotTakeOthersAlong(t *testing.T) {
	t.Parallel()
	key := newKey(t, "ed25519")
	server := startSSHD(t, key.authorized())
	proxy := startProxy(t, server.addr)
	proxy.freeze()
	cfg := server.config(t, key)
	cfg.Port, cfg.ConfigFile = proxy.port(), writeFile(t, "HostKeyAlias "+server.name()+"\n")
	client := newClient(t, cfg)
	socket := echoSocket(t)

	ctx, cancel := context.WithCancel(t.Context())
	var others sync.WaitGroup
	for range 3 {
		others.Go(func() { checkEcho(t, client, socket) })
	}
	proxy.awaitConnections(1)
	time.AfterFunc(50*time.Millisecond, cancel)
	if _, err := client.DialUnix(ctx, socket); !errors.Is(err, context.Canceled) {
		t.Errorf("the one who left: got %v, want %v", err, context.Canceled)
	}
	proxy.thaw()
	others.Wait()
	if int(client.connects.Load()) != 1 {
		t.Errorf("got %d connects, want 1", int(client.connects.Load()))
	}
}

func TestDialUnix_refusesPathsThatAreNone(t *testing.T) {
	t.Parallel()
	client := newClient(t, Config{Host: "kvm1", ConfigFile: "none"})
	for _, path := range []string{"", "run/x", "/run/\x00", "/run/\nx"} {
		if _, err := client.DialUnix(t.Context(), path); !errors.Is(err, ErrConfig) {
			t.Errorf("%q: got %v, want %v", path, err, ErrConfig)
		}
	}
}

func TestClose_endsEverything(t *testing.T) {
	t.Parallel()
	key := newKey(t, "ed25519")
	server := startSSHD(t, key.authorized())
	client := newClient(t, server.config(t, key))
	socket := echoSocket(t)
	conn, err := client.DialUnix(t.Context(), socket)
	noError(t, err)
	read := make(chan error, 1)
	go func() {
		_, err := conn.Read(make([]byte, 1))
		read <- err
	}()
	noError(t, client.Close())
	if err := <-read; !errors.Is(err, ErrClosed) {
		t.Errorf("the pending read: got %v, want %v", err, ErrClosed)
	}
	if _, err := client.DialUnix(t.Context(), socket); !errors.Is(err, ErrClosed) {
		t.Errorf("dialling: got %v, want %v", err, ErrClosed)
	}
	noError(t, client.Close())

	// Closing while a connection is being made ends that as well.
	stalled := newClient(t, Config{Host: "127.0.0.1", Port: startSilence(t), ConfigFile: "none", Agent: new(bool)})
	go func() {
		_, err := stalled.DialUnix(t.Context(), socket)
		read <- err
	}()
	for int(stalled.connects.Load()) == 0 {
		if t.Context().Err() != nil {
			t.Fatal("no attempt was made")
		}
	}
	noError(t, stalled.Close())
	if err := <-read; err == nil {
		t.Error("dialling while closing succeeded")
	}
}

func TestStream_behavesAsAConnection(t *testing.T) {
	t.Parallel()
	key := newKey(t, "ed25519")
	for name, forwarding := range map[string]string{"forwarded": "yes", "program": "no"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := startSSHD(t, key.authorized(), "AllowStreamLocalForwarding "+forwarding)
			needNetcat(t, forwarding)
			client := newClient(t, server.config(t, key))
			testStream(t, client)
		})
	}
}

func testStream(t *testing.T, client *Client) {
	t.Helper()
	dial := func(socket string) net.Conn {
		conn, err := client.DialUnix(t.Context(), socket)
		noError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	// Much more than any window or pipe holds, both ways at once, up to the end of the input.
	echo := dial(echoSocket(t))
	const size = 8 << 20
	go func() {
		_, _ = io.Copy(echo, io.LimitReader(zeros{}, size))
		if half, ok := echo.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
	}()
	if n, err := io.Copy(io.Discard, echo); err != nil || n != size {
		t.Errorf("got %d bytes and %v, want %d and the end", n, err, size)
	}

	// Closing ends a pending read, and a deadline does.
	pending := dial(echoSocket(t))
	noError(t, pending.SetDeadline(time.Now().Add(20*time.Millisecond)))
	if _, err := pending.Read(make([]byte, 1)); !isTimeout(err) {
		t.Errorf("reading past the deadline: got %v, want a timeout", err)
	}
	noError(t, pending.SetDeadline(time.Time{}))
	time.AfterFunc(20*time.Millisecond, func() { _ = pending.Close() })
	if _, err := pending.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("reading from what is closed: got %v, want %v", err, net.ErrClosed)
	}
	if _, err := pending.Write(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("writing to what is closed: got %v, want %v", err, net.ErrClosed)
	}

	// A peer that never reads blocks writes, not closing; one that leaves is the end of reading.
	path := filepath.Join(t.TempDir(), "s")
	leave := make(chan struct{})
	serveSocket(t, path, func(net.Conn) { <-leave })
	full := dial(path)
	noError(t, full.SetWriteDeadline(time.Now().Add(200*time.Millisecond)))
	if _, err := io.Copy(full, zeros{}); !isTimeout(err) {
		t.Errorf("writing to one who doesn't read: got %v, want a timeout", err)
	}
	noError(t, full.Close())
	left := dial(path)
	close(leave)
	if _, err := left.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("reading from one who left: got %v, want %v", err, io.EOF)
	}

	// What was written before closing arrives.
	last := filepath.Join(t.TempDir(), "s")
	received := make(chan string, 1)
	serveSocket(t, last, func(conn net.Conn) {
		text, _ := io.ReadAll(conn)
		received <- string(text)
	})
	farewell := dial(last)
	want := strings.Repeat("farewell ", 1000)
	_, err := io.WriteString(farewell, want)
	noError(t, err)
	noError(t, farewell.Close())
	if got := <-received; got != want {
		t.Errorf("%d bytes arrived, want %d", len(got), len(want))
	}
}

// zeros is an endless source of bytes.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }
