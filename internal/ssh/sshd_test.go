package ssh

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	xssh "golang.org/x/crypto/ssh"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sshdPath is where Debian has the server.
const sshdPath = "/usr/sbin/sshd"

// patience is how long a test may wait for what happens, on a computer however busy.
const patience = 5 * time.Minute

// sshd is a real OpenSSH server. Each connection gets a process of its own, as inetd would start it.
type sshd struct {
	addr     netip.AddrPort
	dir      string
	hostKeys map[string]testKey
	log      *syncBuffer

	mu    sync.Mutex
	procs []*exec.Cmd
	conns int
}

// testKey is a key pair made for one test.
type testKey struct {
	private crypto.Signer
	signer  xssh.Signer
}

func (k testKey) authorized() string { return string(xssh.MarshalAuthorizedKey(k.signer.PublicKey())) }

func (k testKey) write(t *testing.T, path, passphrase string) string {
	t.Helper()
	block, err := xssh.MarshalPrivateKey(k.private, "test")
	noError(t, err)
	noError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	noError(t, os.WriteFile(path, pem.EncodeToMemory(block), 0o600))
	if passphrase == "" {
		return path
	}
	// One round of key derivation keeps the tests quick; the library only makes keys with sixteen.
	keygen := exec.CommandContext(t.Context(), "ssh-keygen", "-q", "-p", "-a", "1", "-N", passphrase, "-f", path)
	if output, err := keygen.CombinedOutput(); err != nil {
		t.Fatalf("encrypting the key: %v: %s", err, output)
	}
	return path
}

func newKey(t *testing.T, kind string) testKey {
	t.Helper()
	var private crypto.Signer
	var err error
	switch kind {
	case "ed25519":
		_, private, err = ed25519.GenerateKey(rand.Reader)
	case "ecdsa":
		private, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case "rsa":
		private, err = rsa.GenerateKey(rand.Reader, 2048)
	default:
		t.Fatalf("unknown kind of key %q", kind)
	}
	noError(t, err)
	signer, err := xssh.NewSignerFromSigner(private)
	noError(t, err)
	return testKey{private: private, signer: signer}
}

// certify signs a certificate for a key and writes it.
func certify(t *testing.T, authority, key testKey, path string, change func(*xssh.Certificate)) {
	t.Helper()
	cert := &xssh.Certificate{
		Key: key.signer.PublicKey(), CertType: xssh.UserCert, KeyId: "test",
		ValidPrincipals: []string{currentUser(t)}, ValidBefore: xssh.CertTimeInfinity,
		Permissions: xssh.Permissions{Extensions: map[string]string{"permit-port-forwarding": ""}},
	}
	if change != nil {
		change(cert)
	}
	noError(t, cert.SignCert(rand.Reader, authority.signer))
	noError(t, os.WriteFile(path, xssh.MarshalAuthorizedKey(cert), 0o600))
}

// lacks ends a test that needs what this computer hasn't got. Where acceptance tests are wanted, all was to be there,
// and a gap is a failure.
func lacks(t *testing.T, what string, args ...any) {
	t.Helper()
	if os.Getenv("TF_ACC") != "" {
		t.Fatalf("this test needs "+what, args...)
	}
	t.Skipf("this test needs "+what, args...)
}

// startSSHD starts a server with one host key of each kind, and extra lines for its configuration.
func startSSHD(t *testing.T, authorized string, extra ...string) *sshd {
	t.Helper()
	if _, err := os.Stat(sshdPath); err != nil {
		lacks(t, "OpenSSH's server (apt-get install openssh-server): %v", err)
	}
	_ = os.MkdirAll("/run/sshd", 0o755) // Made by the service's unit, which may never have run.
	s := &sshd{dir: t.TempDir(), hostKeys: map[string]testKey{}, log: &syncBuffer{}}
	lines := []string{
		"AuthorizedKeysFile " + s.path("authorized_keys"), "PermitRootLogin yes", "StrictModes no", "UsePAM no",
		"PidFile none", "LogLevel VERBOSE", "PasswordAuthentication no", "KbdInteractiveAuthentication no",
		"MaxStartups 100",
	}
	for _, kind := range []string{"ed25519", "ecdsa", "rsa"} {
		s.hostKeys[kind] = newKey(t, kind)
		lines = append(lines, "HostKey "+s.hostKeys[kind].write(t, s.path("host_"+kind), ""))
	}
	noError(t, os.WriteFile(s.path("authorized_keys"), []byte(authorized), 0o600))
	// Earlier lines win in sshd_config.
	text := strings.Join(append(extra, lines...), "\n") + "\n"
	noError(t, os.WriteFile(s.path("sshd_config"), []byte(text), 0o600))

	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("sshd said:\n%s", s.log)
		}
	})
	listener := serve(t, "tcp", "127.0.0.1:0", func(conn net.Conn) { s.serve(ctx, conn) })
	t.Cleanup(cancel)
	s.addr = netip.MustParseAddrPort(listener.Addr().String())
	return s
}

func (s *sshd) path(name string) string { return filepath.Join(s.dir, name) }

func (s *sshd) serve(ctx context.Context, conn net.Conn) {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return
	}
	file, err := tcp.File()
	if err != nil {
		return
	}
	cmd := exec.CommandContext(ctx, sshdPath, "-i", "-e", "-f", s.path("sshd_config"))
	cmd.Stdin, cmd.Stdout, cmd.Stderr = file, file, s.log
	cmd.WaitDelay = time.Second
	s.mu.Lock()
	err = cmd.Start()
	if err == nil {
		s.procs = append(s.procs, cmd)
		s.conns++
	}
	s.mu.Unlock()
	_ = file.Close()
	_ = conn.Close()
	if err == nil {
		_ = cmd.Wait()
	}
}

// kill ends the processes of all connections, as if the server had crashed.
func (s *sshd) kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, cmd := range s.procs {
		_ = cmd.Process.Kill()
	}
	s.procs = nil
}

// connections says how many connections there were.
func (s *sshd) connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conns
}

// name is the server's name in known_hosts.
func (s *sshd) name() string { return fmt.Sprintf("[127.0.0.1]:%d", s.addr.Port()) }

// knownHosts writes a known_hosts file with the server's keys of the given kinds.
func (s *sshd) knownHosts(t *testing.T, kinds ...string) string {
	t.Helper()
	var b strings.Builder
	for _, kind := range kinds {
		b.WriteString(s.name() + " " + s.hostKeys[kind].authorized())
	}
	return writeFile(t, b.String())
}

// config is a configuration that reaches the server with a key, and that nothing on the computer influences.
func (s *sshd) config(t *testing.T, key testKey) Config {
	t.Helper()
	return Config{
		Host: "127.0.0.1", Port: int(s.addr.Port()), User: currentUser(t),
		PrivateKeyFile: key.write(t, filepath.Join(t.TempDir(), "id"), ""), Agent: new(bool),
		KnownHostsFile: s.knownHosts(t, "ed25519"), ConfigFile: "none", Logger: testLogger(t),
		ConnectTimeout: patience,
	}
}

// echoSocket is a unix socket that sends back what it gets.
func echoSocket(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "echo.sock")
	serveSocket(t, path, func(conn net.Conn) { _, _ = io.Copy(conn, conn) })
	return path
}

func serveSocket(t *testing.T, path string, handle func(net.Conn)) {
	t.Helper()
	serve(t, "unix", path, handle)
}

// serve handles connections until the test ends.
func serve(t *testing.T, network, address string, handle func(net.Conn)) net.Listener {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), network, address)
	noError(t, err)
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer func() { _ = conn.Close() }()
				handle(conn)
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		running.Wait()
	})
	return listener
}

// newClient makes a client that ends with the test.
func newClient(t *testing.T, cfg Config) *Client {
	t.Helper()
	client, err := NewClient(cfg)
	noError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// checkEcho dials a socket and sees whether it echoes.
func checkEcho(t *testing.T, client *Client, socket string) {
	t.Helper()
	conn, err := client.DialUnix(t.Context(), socket)
	noError(t, err)
	defer func() { _ = conn.Close() }()
	exchange(t, conn)
}

func exchange(t *testing.T, conn net.Conn) {
	t.Helper()
	const message = "hello, host"
	_, err := io.WriteString(conn, message)
	noError(t, err)
	got := make([]byte, len(message))
	_, err = io.ReadFull(conn, got)
	noError(t, err)
	if string(got) != message {
		t.Fatalf("echo: got %q, want %q", got, message)
	}
}

func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("unexpected error: %v", err)
	}
}

func currentUser(t *testing.T) string {
	t.Helper()
	u, err := user.Current()
	noError(t, err)
	return u.Username
}

func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	noError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// syncBuffer is a buffer for several writers.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func testLogger(t *testing.T) *slog.Logger {
	t.Helper()
	return slog.New(slog.NewTextHandler(&syncBuffer{}, nil))
}
