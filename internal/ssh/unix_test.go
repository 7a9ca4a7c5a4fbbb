package ssh

import (
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	xssh "golang.org/x/crypto/ssh"
)

func TestDialUnix_tellsAMissingSocket(t *testing.T) {
	t.Parallel()
	key := newKey(t, "ed25519")
	live := echoSocket(t)
	stale := filepath.Join(t.TempDir(), "stale.sock")
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: stale})
	noError(t, err)
	listener.SetUnlinkOnClose(false)
	noError(t, listener.Close())
	paths := map[string]string{
		"missing": filepath.Join(t.TempDir(), "none.sock"), "stale": stale, "a file": writeFile(t, "text"),
	}
	for name, forwarding := range map[string]string{"allowed": "yes", "forbidden": "no"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			needNetcat(t, forwarding)
			server := startSSHD(t, key.authorized(), "AllowStreamLocalForwarding "+forwarding)
			client := newClient(t, server.config(t, key))
			for _, known := range []bool{false, true} { // Whether the server has let a stream through before.
				for kind, path := range paths {
					if err := dialRead(t, client, path); !errors.Is(err, ErrSocket) {
						t.Errorf("%s, known %t: got %v, want %v", kind, known, err, ErrSocket)
					}
				}
				checkEcho(t, client, live)
			}
			if int(client.connects.Load()) != 1 {
				t.Errorf("got %d connects, want 1", int(client.connects.Load()))
			}
		})
	}
}

// dialRead returns why a socket can't be read from. A program on the host that takes its time to fail is told of by the
// stream.
func dialRead(t *testing.T, client *Client, path string) error {
	t.Helper()
	conn, err := client.DialUnix(t.Context(), path)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	_, err = conn.Read(make([]byte, 1))
	return err
}

func TestDialUnix_quotesThePath(t *testing.T) {
	t.Parallel()
	needNetcat(t, "no")
	key := newKey(t, "ed25519")
	server := startSSHD(t, key.authorized(), "AllowStreamLocalForwarding no")
	client := newClient(t, server.config(t, key))
	dir := t.TempDir()
	path := filepath.Join(dir, `it's $(touch x) "a" \ path; *`)
	serveSocket(t, path, func(conn net.Conn) { _, _ = conn.Write([]byte("reached")) })
	conn, err := client.DialUnix(t.Context(), path)
	noError(t, err)
	defer func() { _ = conn.Close() }()
	got := make([]byte, 7)
	if _, err := conn.Read(got); err != nil || string(got) != "reached" {
		t.Errorf("got %q and %v", got, err)
	}
}

func TestDialUnix_runsTheHelperForLibvirt(t *testing.T) {
	t.Parallel()
	key := newKey(t, "ed25519")
	bin := t.TempDir()
	helper := "#!/bin/sh\necho \"helper for $1\"\nexec cat\n"
	noError(t, os.WriteFile(filepath.Join(bin, "virt-ssh-helper"), []byte(helper), 0o700))
	// What the login shell prints must not end up in the stream.
	server := startSSHD(t, key.authorized(), "AllowStreamLocalForwarding no",
		"SetEnv PATH="+bin+":/usr/bin:/bin", `ForceCommand echo welcome; printf "no line end"; eval "$SSH_ORIGINAL_COMMAND"`)
	cfg := server.config(t, key)
	cfg.HelperURI = "qemu:///system"
	client := newClient(t, cfg)
	conn, err := client.DialUnix(t.Context(), "/run/nowhere/libvirt-sock")
	noError(t, err)
	defer func() { _ = conn.Close() }()
	want := "helper for qemu:///system\n"
	got := make([]byte, len(want))
	if _, err := conn.Read(got); err != nil || string(got) != want {
		t.Errorf("got %q and %v, want %q", got, err, want)
	}
	exchange(t, conn)
	// The helper knows only libvirt's sockets.
	if _, err := client.DialUnix(t.Context(), "/run/nowhere/monitor.sock"); !errors.Is(err, ErrSocket) {
		t.Errorf("another socket: got %v, want %v", err, ErrSocket)
	}
}

// TestDialSession: the helper knows where a user's daemon listens; without it, netcat looks where that should be.
func TestDialSession(t *testing.T) {
	t.Parallel()
	needNetcat(t, "no")
	key := newKey(t, "ed25519")
	for variable, socket := range map[string]string{
		"": "", "XDG_RUNTIME_DIR": "libvirt-sock", "XDG_CACHE_HOME": "virtqemud-sock", "none": "",
	} {
		t.Run(variable, func(t *testing.T) {
			t.Parallel()
			bin, dir := t.TempDir(), t.TempDir()
			for _, program := range []string{"sh", "nc", "grep", "id"} {
				at, err := exec.LookPath(program)
				noError(t, err)
				noError(t, os.Symlink(at, filepath.Join(bin, program)))
			}
			answer := "reached"
			switch {
			case variable == "":
				answer = "qemu:///session"
				noError(t, os.WriteFile(filepath.Join(bin, "virt-ssh-helper"), []byte("#!/bin/sh\nprintf \"$1\"\n"), 0o700))
			case socket != "":
				noError(t, os.Mkdir(filepath.Join(dir, "libvirt"), 0o700))
				serveSocket(t, filepath.Join(dir, "libvirt", socket), func(conn net.Conn) { _, _ = conn.Write([]byte(answer)) })
			}
			environment := map[string]string{"PATH": bin, "XDG_RUNTIME_DIR": bin, "XDG_CACHE_HOME": bin, variable: dir}
			delete(environment, "")
			line := "SetEnv"
			for name, value := range environment {
				line += " " + name + "=" + value
			}
			cfg := startSSHD(t, key.authorized(), line).config(t, key)
			cfg.HelperURI = "qemu:///session"
			conn, err := newClient(t, cfg).DialSession(t.Context())
			if variable == "none" {
				if !errors.Is(err, ErrSocket) {
					t.Errorf("got %v, want %v", err, ErrSocket)
				}
				return
			}
			noError(t, err)
			defer func() { _ = conn.Close() }()
			got := make([]byte, len(answer))
			if _, err := io.ReadFull(conn, got); err != nil || string(got) != answer {
				t.Errorf("got %q and %v, want %q", got, err, answer)
			}
		})
	}
}

func TestDialUnix_saysWhenThereIsNoWay(t *testing.T) {
	t.Parallel()
	key := newKey(t, "ed25519")
	socket := echoSocket(t)
	empty := t.TempDir()
	tests := map[string]struct {
		lines []string
		kind  error
		want  string
	}{
		"no netcat": {
			lines: []string{"SetEnv PATH=" + empty, "ForceCommand PATH=/usr/bin:/bin; alias x=y; PATH=" + empty +
				`; export PATH; eval "/bin/$SSH_ORIGINAL_COMMAND"`},
			kind: ErrSocket, want: "netcat",
		},
		"no programs": {
			lines: []string{"ForceCommand echo only backups here >&2; exit 7"},
			kind:  ErrSocket, want: "exit status 7: only backups here",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := startSSHD(t, key.authorized(), append(test.lines, "AllowStreamLocalForwarding no")...)
			_, err := newClient(t, server.config(t, key)).DialUnix(t.Context(), socket)
			if !errors.Is(err, test.kind) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want kind %v and %q", err, test.kind, test.want)
			}
		})
	}
}

func TestDialUnix_knowsServersThatSayWhy(t *testing.T) {
	t.Parallel()
	for _, reason := range []xssh.RejectionReason{xssh.Prohibited, xssh.UnknownChannelType} {
		config := noAuthServer()
		server := startMethodServer(t, config, func(offered xssh.NewChannel) bool {
			_ = offered.Reject(reason, "not here")
			return true
		})
		_, err := newClient(t, server.config(t)).DialUnix(t.Context(), "/run/any")
		if !errors.Is(err, ErrForwarding) || errors.Is(err, ErrSocket) {
			t.Errorf("%s: got %v, want %v", reason, err, ErrForwarding)
		}
	}
}

func TestTail_isBounded(t *testing.T) {
	t.Parallel()
	var b tail
	for range 100 {
		n, err := b.Write([]byte(strings.Repeat("x", 100)))
		if n != 100 || err != nil {
			t.Fatalf("got %d, %v", n, err)
		}
	}
	if len(b.String()) != maxStderr {
		t.Errorf("kept %d bytes, want %d", len(b.String()), maxStderr)
	}
}
