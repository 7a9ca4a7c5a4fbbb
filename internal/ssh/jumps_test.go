package ssh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestJumps_areSharedByClients: a bastion is logged in to once, however many hosts are behind it, and left when the
// last of them isn't needed any more.
func TestJumps_areSharedByClients(t *testing.T) {
	t.Parallel()
	key := newKey(t, "ed25519")
	bastion, host := startSSHD(t, key.authorized(), "MaxStartups 1"), startSSHD(t, key.authorized())
	socket := echoSocket(t)
	cfg := host.config(t, key)
	cfg.KnownHostsFile = writeFile(t, host.name()+" "+host.hostKeys["ed25519"].authorized()+
		bastion.name()+" "+bastion.hostKeys["ed25519"].authorized())
	cfg.JumpHosts = []string{fmt.Sprintf("%s@127.0.0.1:%d", currentUser(t), bastion.addr.Port())}
	cfg.Jumps = &Jumps{}
	const hosts = 12
	clients := make([]*Client, hosts)
	var dials sync.WaitGroup
	for i := range clients {
		clients[i] = newClient(t, cfg)
		dials.Go(func() { checkEcho(t, clients[i], socket) })
	}
	dials.Wait()
	if n := bastion.connections(); n != 1 {
		t.Errorf("the jump host was connected to %d times for %d hosts", n, hosts)
	}
	for _, client := range clients[1:] {
		noError(t, client.Close())
	}
	checkEcho(t, clients[0], socket)
	noError(t, clients[0].Close())
	if n := len(cfg.Jumps.clients); n != 0 {
		t.Errorf("%d jump hosts are kept without a user", n)
	}
	// Others' credentials are another connection.
	other := cfg
	other.PrivateKeyFile = key.write(t, t.TempDir()+"/id", "")
	checkEcho(t, newClient(t, cfg), socket)
	checkEcho(t, newClient(t, other), socket)
	if n := bastion.connections(); n != 3 {
		t.Errorf("got %d connections to the jump host, want one for each key", n)
	}
	bastion.kill() // Both open it again.
	checkEcho(t, newClient(t, cfg), socket)
}

// TestHandshakes_areBounded: a server drops connections when too many are logging in.
func TestHandshakes_areBounded(t *testing.T) {
	t.Parallel()
	key := newKey(t, "ed25519")
	server := startSSHD(t, key.authorized())
	var others []func()
	for range handshakesAtOnce {
		release, err := limitHandshakes(t.Context(), server.addr.String())
		noError(t, err)
		others = append(others, release)
	}
	client, socket := newClient(t, server.config(t, key)), echoSocket(t)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := client.DialUnix(ctx, socket); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while others log in: got %v", err)
	}
	if n := server.connections(); n != 0 {
		t.Errorf("got %d connections while others log in, want none", n)
	}
	others[0]()
	checkEcho(t, client, socket)
	checkEcho(t, newClient(t, server.config(t, key)), socket) // The first one has finished.
	for _, release := range others[1:] {
		release()
	}
}

// TestConnect_triesAgainWhenDropped: sshd drops connections at random above its MaxStartups.
func TestConnect_triesAgainWhenDropped(t *testing.T) {
	t.Parallel()
	key := newKey(t, "ed25519")
	server := startSSHD(t, key.authorized())
	var dropped atomic.Int32
	front := serve(t, "tcp", "127.0.0.1:0", func(conn net.Conn) {
		if dropped.Add(1) <= 2 {
			return
		}
		behind, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", server.addr.String())
		if err != nil {
			return
		}
		go func() { _, _ = io.Copy(behind, conn); _ = behind.Close() }()
		_, _ = io.Copy(conn, behind)
	})
	cfg := server.config(t, key)
	cfg.Port = int(netip.MustParseAddrPort(front.Addr().String()).Port())
	cfg.ConfigFile = writeFile(t, "HostKeyAlias "+server.name()+"\n")
	client := newClient(t, cfg)
	checkEcho(t, client, echoSocket(t))
	_ = client.Close()
}

// TestSessions_overflowToFurtherConnections: where streams need programs on the host, a connection has room for a few.
func TestSessions_overflowToFurtherConnections(t *testing.T) {
	t.Parallel()
	needNetcat(t, "no")
	key := newKey(t, "ed25519")
	server := startSSHD(t, key.authorized(), "AllowStreamLocalForwarding no", "MaxSessions 2")
	client := newClient(t, server.config(t, key))
	socket := echoSocket(t)
	var streams []net.Conn
	for range 7 {
		conn, err := client.DialUnix(t.Context(), socket)
		noError(t, err)
		streams = append(streams, conn)
	}
	for _, conn := range streams {
		exchange(t, conn)
	}
	if n := server.connections(); n != 4 {
		t.Errorf("7 streams are on %d connections, want 4", n)
	}
	file := writeFile(t, "text")
	if text, err := client.ReadEnd(t.Context(), file, 10); err != nil || string(text) != "text" {
		t.Errorf("another program: got %q, %v", text, err)
	}
	for range 2*maxConnections - len(streams) {
		conn, err := client.DialUnix(t.Context(), socket)
		noError(t, err)
		streams = append(streams, conn)
	}
	_, err := client.DialUnix(t.Context(), socket)
	if !errors.Is(err, ErrSessions) || errors.Is(err, ErrUnreachable) {
		t.Errorf("one more than all connections take: got %v, want %v", err, ErrSessions)
	}
	for _, conn := range streams {
		exchange(t, conn)
		noError(t, conn.Close())
	}
}

// TestRefusal_isNotTriedAgainAndAgain: servers lock out who is refused often.
func TestRefusal_isNotTriedAgainAndAgain(t *testing.T) {
	t.Parallel()
	key := newKey(t, "ed25519")
	server := startSSHD(t, "")
	client := newClient(t, server.config(t, key))
	for range 5 {
		if _, err := client.DialUnix(t.Context(), "/run/any"); !errors.Is(err, ErrAuth) {
			t.Errorf("got %v, want %v", err, ErrAuth)
		} else if e, ok := errors.AsType[*Error](err); !ok || e.Jump {
			t.Errorf("it is said to be a jump host's: %#v", err)
		}
	}
	if n := server.connections(); n != 1 {
		t.Errorf("the server refused us %d times", n)
	}
}

// TestRefusal_ofAJumpHost: it isn't asked again for each host behind it, and these haven't refused anything.
func TestRefusal_ofAJumpHost(t *testing.T) {
	t.Parallel()
	key := newKey(t, "ed25519")
	bastion, host := startSSHD(t, ""), startSSHD(t, key.authorized())
	cfg := host.config(t, key)
	cfg.KnownHostsFile = writeFile(t, host.name()+" "+host.hostKeys["ed25519"].authorized()+
		bastion.name()+" "+bastion.hostKeys["ed25519"].authorized())
	cfg.JumpHosts = []string{fmt.Sprintf("%s@127.0.0.1:%d", currentUser(t), bastion.addr.Port())}
	cfg.Jumps = &Jumps{}
	for range 2 {
		client := newClient(t, cfg)
		for range len(refusalDelays) + 2 {
			_, err := client.DialUnix(t.Context(), "/run/any")
			at := fmt.Sprintf("SSH to %s@%s: ", currentUser(t), bastion.addr)
			if !errors.Is(err, ErrAuth) || !strings.HasPrefix(err.Error(), at) {
				t.Errorf("got %v, want %v of %s", err, ErrAuth, at)
			}
			if e, ok := errors.AsType[*Error](err); !ok || !e.Jump {
				t.Errorf("it isn't said to be the jump host's: %#v", err)
			}
		}
		if err := client.refused.standingError(); err != nil {
			t.Errorf("the host behind it isn't tried: %v", err)
		}
	}
	if n := bastion.connections(); n != 1 {
		t.Errorf("the jump host refused us %d times", n)
	}
}

func TestRefusal_backsOffAndStops(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind              error
		keepTrying, stops bool
	}{{ErrAuth, false, true}, {ErrAuth, true, false}, {ErrHostKey, false, false}} {
		synctest.Test(t, func(t *testing.T) {
			kind, stops, r := c.kind, c.stops, &refusal{keepTrying: c.keepTrying}
			begin := time.Now()
			var tries []time.Duration
			for time.Since(begin) < 5*time.Hour {
				if r.standingError() == nil {
					tries = append(tries, time.Since(begin))
					r.noteOutcome(&kindError{kind: kind, err: errors.New("no")})
				}
				<-time.After(time.Minute)
			}
			want := []time.Duration{0, 5 * time.Minute, 20 * time.Minute, 80 * time.Minute}
			for i := range want {
				if tries[i] != want[i] {
					t.Errorf("%v: tries at %v, want %v", kind, tries, want)
				}
			}
			if stopped := len(tries) == len(want); stopped != stops {
				t.Errorf("%v: tries at %v", kind, tries)
			}
			if again := tries[len(tries)-1] - tries[len(tries)-2]; again != refusalDelays[len(refusalDelays)-1] {
				t.Errorf("%v: at last it is tried after %v", kind, again)
			}
			r.noteOutcome(nil)
			if err := r.standingError(); err != nil {
				t.Errorf("after a success: %v", err)
			}
		})
	}
}
