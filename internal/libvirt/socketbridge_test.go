package libvirt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// helperEnv makes the test binary try to connect to the socket it names, as another process would.
const helperEnv = "LIBVIRT_TEST_CONNECT_TO"

func dialUnix(t testing.TB, path string) (net.Conn, error) {
	t.Helper()
	return (&net.Dialer{}).DialContext(t.Context(), "unix", path)
}

// stranger is what the test binary does then, in place of tests.
func stranger(path string) error {
	conn, err := (&net.Dialer{Timeout: time.Minute}).DialContext(context.Background(), "unix", path)
	if err != nil {
		return err
	}
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		return fmt.Errorf("got %w instead of the end", err)
	}
	fmt.Println("turned away")
	return nil
}

func TestRelay_leavesNothingOnDisk(t *testing.T) {
	// Not parallel: the directory for temporary files is the process's.
	dir := filepath.Join(t.TempDir(), strings.Repeat("long", 40))
	must(t, os.Mkdir(dir, 0o700))
	t.Setenv("TMPDIR", dir)
	near, far := net.Pipe()
	r, err := newSocketBridge(near)
	must(t, err)
	files, err := os.ReadDir(dir)
	must(t, err)
	if len(files) != 0 {
		t.Errorf("found %v", files)
	}
	local, err := dialUnix(t, r.path())
	must(t, err)
	go func() { _, _ = io.Copy(far, far) }()
	_, err = local.Write([]byte("hello"))
	must(t, err)
	echo := make([]byte, 5)
	_, err = io.ReadFull(local, echo)
	must(t, err)
	if string(echo) != "hello" {
		t.Errorf("got %q", echo)
	}
	ended := make(chan struct{})
	r.onEnd(func() { close(ended) })
	must(t, far.Close())
	<-ended
	if _, err := local.Read(echo); !errors.Is(err, io.EOF) {
		t.Errorf("got %v after the remote end closed", err)
	}
	r.wait()
}

func TestRelay_admitsOnlyThisProcess(t *testing.T) {
	t.Parallel()
	near, far := net.Pipe()
	defer func() { _ = far.Close() }()
	r, err := newSocketBridge(near)
	must(t, err)
	defer func() { r.stop(); r.wait() }()
	other := exec.CommandContext(t.Context(), os.Args[0])
	path := strings.Replace(r.path(), "self", fmt.Sprint(os.Getpid()), 1)
	other.Env = append(os.Environ(), helperEnv+"="+path)
	out, err := other.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "turned away") {
		t.Fatalf("%v: %s", err, out)
	}
	// We ourselves are still admitted.
	local, err := dialUnix(t, r.path())
	must(t, err)
	defer func() { _ = local.Close() }()
	go func() { _, _ = far.Write([]byte("x")) }()
	_, err = local.Read(make([]byte, 1))
	must(t, err)
}

// mute accepts streams and never answers.
func mute(t testing.TB) DialFunc {
	t.Helper()
	return func(context.Context, string) (net.Conn, error) {
		near, far := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, far) }()
		return near, nil
	}
}

func TestConnect_timesOutWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	h := open(t, Config{URI: "qemu+ssh://kvm1/system", Dial: mute(t), ConnectTimeout: 100 * time.Millisecond})
	_, err := h.Domains(t.Context())
	want(t, err, ErrUnreachable)
	want(t, err, context.DeadlineExceeded)
	// The client may not have asked anything by then.
	if !strings.Contains(err.Error(), "nothing)") {
		t.Errorf("it should say that the daemon has answered nothing: %v", err)
	}

	patient := open(t, Config{URI: "qemu+ssh://kvm1/system", Dial: mute(t)})
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	_, err = patient.Domains(ctx)
	want(t, err, context.Canceled)
}

func TestConnect_triesTheSocketsInOrder(t *testing.T) {
	t.Parallel()
	absent := errors.New("no such socket")
	for name, test := range map[string]struct {
		uri   string
		fails error
		paths []string
		kind  error
	}{
		"system": {
			"qemu+ssh://kvm1/system", absent, []string{
				"/run/libvirt/libvirt-sock", "/run/libvirt/virtqemud-sock",
				"/var/run/libvirt/libvirt-sock", "/var/run/libvirt/virtqemud-sock",
			}, ErrUnreachable,
		},
		"socket": {"qemu+ssh://kvm1/system?socket=/a%20b&no_verify=1", absent, []string{"/a b"}, ErrUnreachable},
		"direct": {
			"lxc+ssh://kvm1/system?mode=direct", absent, []string{
				"/run/libvirt/virtlxcd-sock", "/var/run/libvirt/virtlxcd-sock",
			}, ErrUnreachable,
		},
		"root's session": {
			"qemu+ssh://root@kvm1/session?mode=legacy", absent, []string{
				"/run/user/0/libvirt/libvirt-sock", "/root/.cache/libvirt/libvirt-sock",
			}, ErrUnreachable,
		},
		"root's session, whichever": {
			"qemu+ssh://root@kvm1/session", absent, []string{
				"/run/user/0/libvirt/libvirt-sock", "/run/user/0/libvirt/virtqemud-sock",
				"/root/.cache/libvirt/libvirt-sock", "/root/.cache/libvirt/virtqemud-sock", SessionSocket,
			}, ErrUnreachable,
		},
		"a user's session":       {"qemu+ssh://me@kvm1/session", absent, []string{SessionSocket}, ErrUnreachable},
		"another user's session": {"qemu+ssh://kvm1/session?socket=/x", absent, []string{"/x"}, ErrUnreachable},
		"host down": {
			"qemu+ssh://kvm1/system", fmt.Errorf("dialing: %w", ErrUnreachable), []string{
				"/run/libvirt/libvirt-sock",
			}, ErrUnreachable,
		},
		"not let in": {
			"qemu+ssh://kvm1/system", fmt.Errorf("authenticating: %w", ErrDenied), []string{
				"/run/libvirt/libvirt-sock",
			}, ErrDenied,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var paths []string
			h := open(t, Config{URI: test.uri, Dial: func(_ context.Context, path string) (net.Conn, error) {
				paths = append(paths, path)
				return nil, test.fails
			}})
			_, err := h.Info(t.Context())
			want(t, err, test.kind)
			want(t, err, test.fails)
			if got := strings.Join(paths, " "); got != strings.Join(test.paths, " ") {
				t.Errorf("tried %s, want %v", got, test.paths)
			}
		})
	}
}

// What all sockets say is said once.
func TestConnect_saysEachCauseOnce(t *testing.T) {
	t.Parallel()
	h := open(t, Config{URI: "qemu+ssh://kvm1/system", Dial: func(_ context.Context, path string) (net.Conn, error) {
		if path == "/run/libvirt/virtqemud-sock" {
			return nil, errors.New("opening " + path + ": permission denied")
		}
		if path == "/run/libvirt/libvirt-sock" {
			path = "/var/run/libvirt/libvirt-sock" // As virt-ssh-helper does, which chooses itself.
		}
		return nil, errors.New("opening '" + path + "': connection refused")
	}})
	_, err := h.Info(t.Context())
	want(t, err, ErrUnreachable)
	want(t, err, ErrNoDaemon)
	const text = "no libvirt daemon answers at /run/libvirt/libvirt-sock, /var/run/libvirt/libvirt-sock, " +
		"/var/run/libvirt/virtqemud-sock: opening the socket: connection refused; at /run/libvirt/virtqemud-sock: " +
		"opening the socket: permission denied"
	if !strings.HasSuffix(err.Error(), text) {
		t.Errorf("%v\nwant %s", err, text)
	}
}

// TestConnect_localSocketIsMissing: this computer isn't off if its socket doesn't exist.
func TestConnect_localSocketIsMissing(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "sock")
	h := open(t, Config{URI: "qemu:///system?socket=" + missing})
	_, err := h.Info(t.Context())
	want(t, err, ErrUnreachable)
	want(t, err, ErrNoDaemon)
	if !strings.Contains(err.Error(), missing) {
		t.Errorf("the error doesn't name the socket: %v", err)
	}
}

func TestTarget_keepsWhatIsLibvirts(t *testing.T) {
	t.Parallel()
	for uri, expected := range map[string]string{
		"qemu+ssh://root@kvm1:2222/system":                          "qemu+unix:///system?socket=%2Fs",
		"qemu+ssh://kvm1/system?keyfile=/k;name=x&sshauth=agent":    "qemu+unix:///system?name=x&socket=%2Fs",
		"test+ssh://kvm1/default?no_verify=1&known_hosts=/k&a=b%20": "test+unix:///default?a=b%20&socket=%2Fs",
	} {
		got, err := parseTarget(uri)
		must(t, err)
		if got.withSocket("/s") != expected {
			t.Errorf("%s: got %s, want %s", uri, got.withSocket("/s"), expected)
		}
	}
	for _, uri := range []string{
		"qemu:///system?socket=/x", "qemu+tls://kvm1/system?no_verify=1", "qemu+tcp://kvm1/system",
	} {
		got, err := parseTarget(uri)
		must(t, err)
		if got.uri != uri || got.bridged {
			t.Errorf("%s became %s", uri, got.uri)
		}
	}
	for _, uri := range []string{"qemu+ssh://u:p4ss@kvm1/session?mode=direct", "qemu+ssh://u:p4ss@kvm1/system?mode=x"} {
		_, err := parseTarget(uri)
		want(t, err, ErrInvalid)
		if strings.Contains(err.Error(), "p4ss") {
			t.Errorf("%v shows the password", err)
		}
	}
}

// TestTarget_isBridgedWhereItCanBe: a migration has streams of its own to a daemon that libvirt's client would reach.
func TestTarget_isBridgedWhereItCanBe(t *testing.T) {
	t.Parallel()
	for uri, expected := range map[string]string{
		"qemu:///system":                                "unix /run/libvirt/libvirt-sock",
		"qemu+unix:///system?socket=/x":                 "unix /x",
		"qemu+tcp://kvm1/system":                        "tcp kvm1:16509",
		"qemu+tcp://[fd00::1]:17/system":                "tcp [fd00::1]:17",
		"qemu+tls://kvm1/system?name=x;pkipath=/p":      "tcp kvm1:16514 kvm1 /p/clientkey.pem",
		"qemu://kvm1:18/system?pkipath=/p":              "tcp kvm1:18 kvm1 /p/clientkey.pem",
		"qemu+tls://kvm1/system?pkipath=/p&no_verify=1": "",
		"qemu+tls://kvm1/system?tls_priority=NORMAL":    "",
		"qemu:///session":                               "",
		"test:///default":                               "",
		"qemu+ssh://kvm1/system":                        "",
	} {
		parsed, err := parseTarget(uri)
		must(t, err)
		got := ""
		if b := parsed.bridge; b != nil {
			got = b.network + " " + b.sockets[0]
			if b.identity != nil {
				got += " " + b.identity.serverName + " " + b.identity.key
			}
		}
		if got != expected {
			t.Errorf("%s: got %q, want %q", uri, got, expected)
		}
	}
}

func TestConnect_boundsLibvirtsOwnSockets(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "mute")
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", path)
	must(t, err)
	h := open(t, Config{URI: "qemu+unix:///system?socket=" + path, ConnectTimeout: 100 * time.Millisecond})
	_, err = h.Domains(t.Context())
	want(t, err, ErrUnreachable)
	want(t, err, context.DeadlineExceeded)
	// libvirt still waits for the daemon. Nothing but the daemon can end that.
	conn, err := listener.Accept()
	must(t, err)
	must(t, errors.Join(conn.Close(), listener.Close()))
}

func TestConnect_refusedIsUnreachable(t *testing.T) {
	t.Parallel()
	h := open(t, Config{URI: "qemu+unix:///system?socket=" + filepath.Join(t.TempDir(), "none")})
	for range 2 {
		_, err := h.Domains(t.Context())
		want(t, err, ErrUnreachable)
		want(t, h.DefineOwnSecret(t.Context(), OwnSecret{UUID: "6695eb01-f6a4-8304-79aa-97f2502e193f"}), ErrUnreachable)
	}
}

// TestDial_findsADaemonThatMoved: libvirtd may be replaced by virtqemud while a program runs for months.
func TestDial_findsADaemonThatMoved(t *testing.T) {
	t.Parallel()
	absent := errors.New("no such socket")
	var listening string
	var asked []string
	h := open(t, Config{URI: "qemu+ssh://kvm1/system", Dial: func(_ context.Context, path string) (net.Conn, error) {
		asked = append(asked, path)
		if path != listening {
			return nil, absent
		}
		near, _ := net.Pipe()
		return near, nil
	}})
	dial := func() {
		t.Helper()
		must(t, h.atSocket(t.Context(), h.target.sockets, func(path string) error {
			_, err := h.cfg.Dial(t.Context(), path)
			return err
		}))
	}
	for _, listening = range h.target.sockets {
		dial()
		dial()
		if last := asked[len(asked)-2:]; last[1] != listening {
			t.Errorf("asked at %q, want %s", last, listening)
		}
		asked = asked[:0]
		dial()
		if len(asked) != 1 {
			t.Errorf("where it is known to be, it was looked for at %q", asked)
		}
	}
}

// failing is a stream whose program on the host finds late that it can't connect.
type failing struct {
	net.Conn
	err error
}

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// TestConnect_lateFailureIsTheSockets: a stream that fails before the host has said a word never led anywhere.
func TestConnect_lateFailureIsTheSockets(t *testing.T) {
	t.Parallel()
	refused := errors.New("the program ended with status 1: connection refused")
	var asked []string
	h := open(t, Config{URI: "qemu+ssh://kvm1/system", Dial: func(_ context.Context, path string) (net.Conn, error) {
		asked = append(asked, path)
		near, far := net.Pipe()
		t.Cleanup(func() { _ = far.Close() })
		return failing{near, refused}, nil
	}})
	_, err := h.Info(t.Context())
	want(t, err, ErrNoDaemon)
	want(t, err, refused)
	if len(asked) != len(h.target.sockets) {
		t.Errorf("asked at %q only", asked)
	}
}
