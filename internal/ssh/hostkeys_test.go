package ssh

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	xssh "golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// dialHostKey dials and returns why the host's key was refused, or nil.
func dialHostKey(t *testing.T, cfg Config) *HostKeyError {
	t.Helper()
	conn, err := newClient(t, cfg).DialUnix(t.Context(), echoSocket(t))
	if err == nil {
		_ = conn.Close()
		return nil
	}
	var refused *HostKeyError
	if !errors.Is(err, ErrHostKey) || !errors.As(err, &refused) {
		t.Fatalf("got %v, want an error of kind %v", err, ErrHostKey)
	}
	return refused
}

func TestHostKey_acceptsWhatIsKnown(t *testing.T) {
	t.Parallel()
	key := newKey(t, "ed25519")
	server := startSSHD(t, key.authorized())
	public := func(kind string) string { return server.hostKeys[kind].authorized() }
	other := newKey(t, "ed25519").authorized()
	tests := map[string]string{
		"ed25519 only":      server.name() + " " + public("ed25519"),
		"ecdsa only":        server.name() + " " + public("ecdsa"),
		"rsa only":          server.name() + " " + public("rsa"),
		"several":           server.name() + " " + public("rsa") + server.name() + " " + public("ed25519"),
		"an old one too":    server.name() + " " + other + server.name() + " " + public("ed25519"),
		"hashed":            knownhosts.HashHostname(server.name()) + " " + public("ed25519"),
		"pattern":           strings.Replace(server.name(), "0.1]", "0.*]", 1) + ",other " + public("ecdsa"),
		"without port":      "127.0.0.1 " + public("ecdsa"),
		"unreadable lines":  "nonsense\nx ssh-new AAAA\n# comment\n\n" + server.name() + " " + public("rsa"),
		"Windows line ends": server.name() + " " + strings.TrimSpace(public("rsa")) + "\r\n",
		"another's revoked": "@revoked elsewhere " + public("rsa") + server.name() + " " + public("rsa"),
	}
	for name, known := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := server.config(t, key)
			cfg.KnownHostsFile = writeFile(t, known)
			if refused := dialHostKey(t, cfg); refused != nil {
				t.Errorf("refused: %v", refused)
			}
		})
	}
}

func TestHostKey_refusesWhatIsWrong(t *testing.T) {
	t.Parallel()
	key := newKey(t, "ed25519")
	server := startSSHD(t, key.authorized())
	other := newKey(t, "ed25519").authorized()
	own := server.hostKeys["ed25519"].authorized()
	tests := map[string]struct {
		known   string
		problem HostKeyProblem
		line    int
	}{
		"unknown":    {known: "elsewhere " + own, problem: HostKeyUnknown},
		"negated":    {known: "!" + server.name() + ",!127.0.0.1,* " + own, problem: HostKeyUnknown},
		"other port": {known: "127.0.0.1 " + other, problem: HostKeyUnknown},
		"changed": {
			known: "# a comment\nelsewhere " + own + server.name() + " " + other, problem: HostKeyChanged, line: 3,
		},
		"changed hashed": {
			known: knownhosts.HashHostname(server.name()) + " " + other, problem: HostKeyChanged, line: 1,
		},
		"revoked": {
			known: server.name() + " " + own + "@revoked * " + own, problem: HostKeyRevoked, line: 2,
		},
	}
	for name, test := range tests {
		for _, checking := range []string{HostKeyStrict, HostKeyAcceptNew} {
			if checking == HostKeyAcceptNew && test.problem == HostKeyUnknown {
				continue
			}
			t.Run(name+" "+checking, func(t *testing.T) {
				t.Parallel()
				cfg := server.config(t, key)
				cfg.KnownHostsFile, cfg.HostKeyChecking = writeFile(t, test.known), checking
				refused := dialHostKey(t, cfg)
				if refused == nil {
					t.Fatal("the key was accepted")
				}
				if refused.Problem != test.problem || refused.Line != test.line {
					t.Errorf("got problem %q, line %d, want %q, line %d", refused.Problem, refused.Line, test.problem, test.line)
				}
				place := cfg.KnownHostsFile + ":" + string(rune('0'+test.line))
				if test.line > 0 && (refused.File != cfg.KnownHostsFile || !strings.Contains(refused.Error(), place)) {
					t.Errorf("%q doesn't name %s", refused, place)
				}
				if after, err := os.ReadFile(cfg.KnownHostsFile); err != nil || string(after) != test.known {
					t.Errorf("the file was changed to %q (%v)", after, err)
				}
			})
		}
	}
}

func TestHostKey_asksForTheKindThatIsKnown(t *testing.T) {
	t.Parallel()
	target := &target{
		host: "kvm1", port: 22, checking: HostKeyStrict,
		userKnownHosts: []string{writeFile(t, "kvm1 "+newKey(t, "rsa").authorized())},
	}
	noError(t, target.resolveAlgorithms(options{}))
	keys, err := loadHostKeys(target, slog.New(slog.DiscardHandler))
	noError(t, err)
	algorithms := keys.algorithmOrder()
	if keyTypeOf(algorithms[0]) != xssh.KeyAlgoRSA || keyTypeOf(algorithms[1]) != xssh.KeyAlgoRSA {
		t.Errorf("algorithms %v don't begin with those of RSA keys", algorithms)
	}
	for _, algorithm := range algorithms {
		if strings.Contains(algorithm, "-cert-") {
			t.Errorf("asks for %s without a known authority", algorithm)
		}
	}
}

func TestHostKey_checksCertificates(t *testing.T) {
	t.Parallel()
	key, authority := newKey(t, "ed25519"), newKey(t, "ed25519")
	start := func(t *testing.T, change func(*xssh.Certificate)) *sshd {
		t.Helper()
		path := filepath.Join(t.TempDir(), "host-cert.pub")
		server := startSSHD(t, key.authorized(), "HostCertificate "+path)
		certify(t, authority, server.hostKeys["ed25519"], path, func(c *xssh.Certificate) {
			c.CertType, c.ValidPrincipals = xssh.HostCert, []string{"127.0.0.1"}
			c.Permissions = xssh.Permissions{}
			if change != nil {
				change(c)
			}
		})
		return server
	}
	vouched := func(s *sshd) string {
		return "@cert-authority " + s.name() + " " + authority.authorized()
	}
	tests := map[string]struct {
		change  func(*xssh.Certificate)
		known   func(*sshd) string
		problem HostKeyProblem
	}{
		"valid":   {known: vouched},
		"its key": {known: func(s *sshd) string { return s.name() + " " + s.hostKeys["ed25519"].authorized() }},
		"other host": {
			change: func(c *xssh.Certificate) { c.ValidPrincipals = []string{"kvm2"} },
			known:  vouched, problem: HostKeyCertificate,
		},
		"expired": {
			change: func(c *xssh.Certificate) { c.ValidBefore = 1 },
			known:  vouched, problem: HostKeyCertificate,
		},
		"expired, its key is known": {
			change: func(c *xssh.Certificate) { c.ValidBefore = 1 },
			known: func(s *sshd) string {
				return vouched(s) + s.name() + " " + s.hostKeys["ed25519"].authorized()
			},
		},
		"pattern": {
			change: func(c *xssh.Certificate) { c.ValidPrincipals = []string{"kvm2", "127.0.*"} }, known: vouched,
		},
		"authority of others": {
			known:   func(*sshd) string { return "@cert-authority elsewhere " + authority.authorized() },
			problem: HostKeyUnknown,
		},
		"revoked authority": {
			known:   func(s *sshd) string { return vouched(s) + "@revoked * " + authority.authorized() },
			problem: HostKeyRevoked,
		},
		"revoked key": {
			known:   func(s *sshd) string { return vouched(s) + "@revoked * " + s.hostKeys["ed25519"].authorized() },
			problem: HostKeyRevoked,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := start(t, test.change)
			cfg := server.config(t, key)
			cfg.KnownHostsFile = writeFile(t, test.known(server))
			refused := dialHostKey(t, cfg)
			switch {
			case refused == nil && test.problem != "":
				t.Errorf("the certificate was accepted, want problem %q", test.problem)
			case refused != nil && refused.Problem != test.problem:
				t.Errorf("got %v, want problem %q", refused, test.problem)
			}
		})
	}
}

// TestHostKey_saysThatTheFileIsMissing: a known_hosts file that doesn't exist was configured nevertheless, and is
// named.
func TestHostKey_saysThatTheFileIsMissing(t *testing.T) {
	t.Parallel()
	key := newKey(t, "ed25519")
	server := startSSHD(t, key.authorized())
	cfg := server.config(t, key)
	cfg.KnownHostsFile = filepath.Join(t.TempDir(), "missing")
	refused := dialHostKey(t, cfg)
	if refused == nil || refused.Problem != HostKeyUnknown {
		t.Fatalf("got %v", refused)
	}
	want := "the configured known_hosts file " + cfg.KnownHostsFile + " does not exist: correct its path or make it"
	if got := refused.Error(); !strings.Contains(got, want) || strings.Contains(got, "is configured") {
		t.Errorf("%q is not in: %s", want, got)
	}
}

func TestHostKey_recordsNewHosts(t *testing.T) {
	t.Parallel()
	key := newKey(t, "ed25519")
	server := startSSHD(t, key.authorized())
	cfg := server.config(t, key)
	cfg.HostKeyChecking = HostKeyAcceptNew
	dir := filepath.Join(t.TempDir(), "new")
	cfg.KnownHostsFile = filepath.Join(dir, "known_hosts")

	// Several clients at once meet the host, and it is recorded once.
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			if refused := dialHostKey(t, cfg); refused != nil {
				t.Errorf("refused: %v", refused)
			}
		})
	}
	clients.Wait()
	text, err := os.ReadFile(cfg.KnownHostsFile)
	noError(t, err)
	if want := server.name() + " " + server.hostKeys["ed25519"].authorized(); string(text) != want {
		t.Errorf("known hosts: got %q, want %q", text, want)
	}
	for path, want := range map[string]os.FileMode{dir: 0o700, cfg.KnownHostsFile: 0o600} {
		info, err := os.Stat(path)
		noError(t, err)
		if info.Mode().Perm() != want {
			t.Errorf("%s has mode %o, want %o", path, info.Mode().Perm(), want)
		}
	}
	cfg.HostKeyChecking = HostKeyStrict
	if refused := dialHostKey(t, cfg); refused != nil {
		t.Errorf("after recording: %v", refused)
	}

	// A file whose last line lacks its end, names to be hashed.
	cfg.HostKeyChecking = HostKeyAcceptNew
	other := newKey(t, "rsa").authorized()
	cfg.KnownHostsFile = writeFile(t, "elsewhere "+strings.TrimSpace(other))
	cfg.ConfigFile = writeFile(t, "HashKnownHosts yes\n")
	if refused := dialHostKey(t, cfg); refused != nil {
		t.Fatalf("refused: %v", refused)
	}
	text, err = os.ReadFile(cfg.KnownHostsFile)
	noError(t, err)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if len(lines) != 2 || !strings.HasPrefix(lines[1], "|1|") || strings.Contains(lines[1], "127.0.0.1") {
		t.Errorf("known hosts: got %q, want a second line with a hashed name", text)
	}
	cfg.HostKeyChecking = HostKeyStrict
	if refused := dialHostKey(t, cfg); refused != nil {
		t.Errorf("after recording the hashed name: %v", refused)
	}
}

func TestHostKey_refusesWhatCannotBeRecorded(t *testing.T) {
	t.Parallel()
	key := newKey(t, "ed25519")
	server := startSSHD(t, key.authorized())
	cfg := server.config(t, key)
	cfg.HostKeyChecking = HostKeyAcceptNew
	cfg.KnownHostsFile = filepath.Join(writeFile(t, "a file, no directory"), "known_hosts")
	_, err := newClient(t, cfg).DialUnix(t.Context(), "/run/any")
	if !errors.Is(err, ErrHostKey) && !errors.Is(err, ErrConfig) {
		t.Errorf("got %v, want %v or %v", err, ErrHostKey, ErrConfig)
	}
}

func TestHostKey_warnsWhenInsecure(t *testing.T) {
	t.Parallel()
	key := newKey(t, "ed25519")
	server := startSSHD(t, key.authorized())
	cfg := server.config(t, key)
	cfg.HostKeyChecking = HostKeyInsecure
	cfg.KnownHostsFile = writeFile(t, server.name()+" "+newKey(t, "ed25519").authorized())
	var log syncBuffer
	cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	for range 2 {
		if refused := dialHostKey(t, cfg); refused != nil {
			t.Fatalf("refused: %v", refused)
		}
	}
	if n := strings.Count(log.String(), "level=WARN"); n != 2 {
		t.Errorf("got %d warnings for 2 connections:\n%s", n, &log)
	}
}

func TestHostKey_goesByItsAlias(t *testing.T) {
	t.Parallel()
	key := newKey(t, "ed25519")
	server := startSSHD(t, key.authorized())
	cfg := server.config(t, key)
	cfg.ConfigFile = writeFile(t, "HostKeyAlias Rack-7\n")
	cfg.KnownHostsFile = writeFile(t, "rack-7 "+server.hostKeys["ecdsa"].authorized())
	if refused := dialHostKey(t, cfg); refused != nil {
		t.Errorf("refused: %v", refused)
	}
}

// TestHostKey_refusesWeaklySignedCertificates: whoever can make two documents of one SHA-1 sum could make one a
// certificate.
func TestHostKey_refusesWeaklySignedCertificates(t *testing.T) {
	t.Parallel()
	key, authority := newKey(t, "ed25519"), newKey(t, "rsa")
	signer, ok := authority.signer.(xssh.AlgorithmSigner)
	if !ok {
		t.Fatal("an RSA key has one algorithm only")
	}
	path := filepath.Join(t.TempDir(), "host-cert.pub")
	server := startSSHD(t, key.authorized(), "HostCertificate "+path)
	for algorithm, config := range map[string]string{
		xssh.KeyAlgoRSA: "", xssh.KeyAlgoRSASHA512: "", xssh.KeyAlgoRSASHA256: "CASignatureAlgorithms rsa-sha2-512\n",
	} {
		weak, err := xssh.NewSignerWithAlgorithms(signer, []string{algorithm})
		noError(t, err)
		certify(t, testKey{signer: weak}, server.hostKeys["ed25519"], path, func(c *xssh.Certificate) {
			c.CertType, c.ValidPrincipals, c.Permissions = xssh.HostCert, []string{"127.0.0.1"}, xssh.Permissions{}
		})
		cfg := server.config(t, key)
		cfg.KnownHostsFile = writeFile(t, "@cert-authority "+server.name()+" "+authority.authorized())
		cfg.ConfigFile = writeFile(t, config)
		refused := dialHostKey(t, cfg)
		if accepted := refused == nil; accepted != (algorithm == xssh.KeyAlgoRSASHA512) {
			t.Errorf("signed with %s, %q: got %v", algorithm, config, refused)
		}
		if refused != nil && refused.Problem != HostKeyCertificate {
			t.Errorf("signed with %s: got %v, want problem %q", algorithm, refused, HostKeyCertificate)
		}
	}
}

func TestHostKey_comparesNamesWithoutCase(t *testing.T) {
	t.Parallel()
	cert := &xssh.Certificate{ValidPrincipals: []string{"kvm1.example.net"}}
	h := &hostKeys{target: &target{host: "KVM1.Example.NET"}}
	if got := h.certificatePrincipal(cert); got != "kvm1.example.net" {
		t.Errorf("looks for %q in the certificate", got)
	}
}

// TestHostKey_recordsOneOfSeveral: of hosts that meet several clients under one name with different keys, the first one
// is recorded, and the others are refused.
func TestHostKey_recordsOneOfSeveral(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "known_hosts")
	to := &target{host: "kvm1", port: 22, checking: HostKeyAcceptNew, userKnownHosts: []string{file}}
	noError(t, to.resolveAlgorithms(options{}))
	const clients = 8
	all := make([]*hostKeys, clients)
	for i := range all { // All have read the file before the first writes.
		var err error
		all[i], err = loadHostKeys(to, slog.New(slog.DiscardHandler))
		noError(t, err)
	}
	keys := []testKey{newKey(t, "ed25519"), newKey(t, "ed25519"), newKey(t, "ecdsa")}
	var meeting sync.WaitGroup
	errs := make([]error, clients)
	for i, h := range all {
		meeting.Go(func() { errs[i] = h.checkKey(keys[i%len(keys)].signer.PublicKey()) })
	}
	meeting.Wait()
	text, err := os.ReadFile(file)
	noError(t, err)
	if strings.Count(string(text), "\n") != 1 {
		t.Errorf("known hosts: got %q, want one key", text)
	}
	for i, err := range errs {
		recorded := strings.Contains(string(text), strings.TrimSpace(keys[i%len(keys)].authorized()))
		var refused *HostKeyError
		if recorded && err != nil || !recorded && (!errors.As(err, &refused) || refused.Problem != HostKeyChanged) {
			t.Errorf("client %d, whose key is recorded: %t: got %v", i, recorded, err)
		}
	}
}
