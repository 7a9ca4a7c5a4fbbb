package ssh

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestListenUnix_takesConnectionsMadeOnTheHost(t *testing.T) {
	t.Parallel()
	key := newKey(t, "ed25519")
	server := startSSHD(t, key.authorized())
	client := newClient(t, server.config(t, key))
	path := filepath.Join(t.TempDir(), "it's a socket")
	for range 2 { // The second time there is one already.
		listener, err := client.ListenUnix(t.Context(), path)
		noError(t, err)
		if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("the socket is %v, %v; want one for its owner only", info, err)
		}
		for range 2 {
			local, err := (&net.Dialer{}).DialContext(t.Context(), "unix", path)
			noError(t, err)
			remote, err := listener.Accept()
			noError(t, err)
			_, err = io.WriteString(local, "from the host")
			noError(t, err)
			_, err = io.WriteString(remote, "to the host")
			noError(t, err)
			half, ok := remote.(interface{ CloseWrite() error })
			if !ok {
				t.Fatal("a connection can't be closed in one direction")
			}
			noError(t, half.CloseWrite())
			if got, err := io.ReadAll(local); err != nil || string(got) != "to the host" {
				t.Errorf("the host got %q, %v", got, err)
			}
			noError(t, local.Close())
			if got, err := io.ReadAll(remote); err != nil || string(got) != "from the host" {
				t.Errorf("got %q, %v", got, err)
			}
			noError(t, remote.Close())
		}
		noError(t, listener.Close())
		if _, err := listener.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("a closed listener says %v", err)
		}
		if conn, err := (&net.Dialer{}).DialContext(t.Context(), "unix", path); err == nil {
			t.Error("the host still listens")
			_ = conn.Close()
		}
	}
	for range 2 {
		noError(t, client.RemoveUnix(t.Context(), path))
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the socket is still there: %v", err)
		}
	}
}

func TestListenUnix_reportsWhatBlocksIt(t *testing.T) {
	t.Parallel()
	key := newKey(t, "ed25519")
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	noError(t, os.WriteFile(file, nil, 0o600))
	for name, test := range map[string]struct{ allowed, path string }{
		"forbidden": {"local", filepath.Join(dir, "socket")}, "a file": {"yes", file},
		"no directory": {"yes", filepath.Join(dir, "missing", "socket")},
	} {
		server := startSSHD(t, key.authorized(), "AllowStreamLocalForwarding "+test.allowed)
		_, err := newClient(t, server.config(t, key)).ListenUnix(t.Context(), test.path)
		if !errors.Is(err, ErrForwarding) {
			t.Errorf("%s: got %v, want %v", name, err, ErrForwarding)
		}
	}
	if _, err := os.Stat(file); err != nil {
		t.Errorf("what isn't a socket was removed: %v", err)
	}
	server := startSSHD(t, key.authorized())
	if _, err := newClient(t, server.config(t, key)).ListenUnix(t.Context(), "relative"); !errors.Is(err, ErrConfig) {
		t.Errorf("a relative path: got %v", err)
	}
}

func TestListenUnix_endsWithTheConnection(t *testing.T) {
	t.Parallel()
	key := newKey(t, "ed25519")
	server := startSSHD(t, key.authorized())
	client := newClient(t, server.config(t, key))
	path := filepath.Join(t.TempDir(), "socket")
	listener, err := client.ListenUnix(t.Context(), path)
	noError(t, err)
	time.AfterFunc(100*time.Millisecond, server.kill)
	if _, err := listener.Accept(); !errors.Is(err, ErrUnreachable) {
		t.Errorf("got %v, want %v", err, ErrUnreachable)
	}
	if err := listener.Close(); err == nil {
		t.Error("closing pretends that the host was told")
	}
	noError(t, client.RemoveUnix(t.Context(), path)) // Over a new connection.
}

// TestAnswers_stallIsNotSilence: a host that stalls for longer than the patience says what it knows
// afterwards.
func TestAnswers_stallIsNotSilence(t *testing.T) {
	t.Parallel()
	key := newKey(t, "ed25519")
	server := startSSHD(t, key.authorized())
	proxy := startProxy(t, server.addr)
	cfg := server.config(t, key)
	cfg.Port, cfg.ConfigFile = proxy.port(), writeFile(t, "HostKeyAlias "+server.name()+"\n")
	client := newClient(t, cfg)
	conn, err := client.DialUnix(t.Context(), echoSocket(t))
	noError(t, err)
	defer func() { _ = conn.Close() }()
	exchange(t, conn) // It stays open: nothing is under way that could be held.

	const short = time.Second
	proxy.freeze()
	go func() {
		proxy.awaitHeld()
		time.AfterFunc(2*short, proxy.thaw)
	}()
	if answers, err := client.Answers(t.Context(), "127.0.0.1", 1, short); !answers || err != nil {
		t.Errorf("got %t, %v, want what the host says in the end", answers, err)
	}
}
