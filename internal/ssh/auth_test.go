package ssh

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	xssh "golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

func TestAuth_acceptsEachKindOfKey(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"ed25519", "ecdsa", "rsa"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			key := newKey(t, kind)
			server := startSSHD(t, key.authorized())
			socket := echoSocket(t)

			file := server.config(t, key)
			checkEcho(t, newClient(t, file), socket)

			value := file
			pem, err := os.ReadFile(file.PrivateKeyFile)
			noError(t, err)
			value.PrivateKeyFile, value.PrivateKey = "", string(pem)
			checkEcho(t, newClient(t, value), socket)

			encrypted := file
			encrypted.PrivateKeyFile = key.write(t, filepath.Join(t.TempDir(), "id"), "open sesame")
			encrypted.Passphrase = "open sesame"
			checkEcho(t, newClient(t, encrypted), socket)

			held := file
			held.PrivateKeyFile, held.Agent = "", nil
			held.ConfigFile = writeFile(t, "IdentityAgent "+startAgent(t, agent.AddedKey{PrivateKey: key.private})+"\n")
			checkEcho(t, newClient(t, held), socket)
		})
	}
}

func TestAuth_triesEveryDefaultIdentityFile(t *testing.T) {
	for name, kind := range map[string]string{"id_rsa": "rsa", "id_ecdsa": "ecdsa", "id_ed25519": "ed25519"} {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			t.Setenv("HOME", home)
			key := newKey(t, kind)
			server := startSSHD(t, key.authorized())
			cfg := server.config(t, key)
			cfg.PrivateKeyFile = ""
			key.write(t, filepath.Join(home, ".ssh", name), "")
			checkEcho(t, newClient(t, cfg), echoSocket(t))
		})
	}
}

func TestAuth_usesCertificates(t *testing.T) {
	t.Parallel()
	authority, key := newKey(t, "ed25519"), newKey(t, "ecdsa")
	server := startSSHD(t, "", "TrustedUserCAKeys "+writeFile(t, authority.authorized()))
	socket := echoSocket(t)

	implied := server.config(t, key)
	certify(t, authority, key, implied.PrivateKeyFile+"-cert.pub", nil)
	checkEcho(t, newClient(t, implied), socket)

	named := server.config(t, key)
	named.CertificateFile = filepath.Join(t.TempDir(), "cert.pub")
	certify(t, authority, key, named.CertificateFile, nil)
	checkEcho(t, newClient(t, named), socket)

	held := named
	held.PrivateKeyFile, held.Agent = "", nil
	held.ConfigFile = writeFile(t, "IdentityAgent "+startAgent(t, agent.AddedKey{PrivateKey: key.private})+"\n")
	checkEcho(t, newClient(t, held), socket)

	_, err := newClient(t, server.config(t, key)).DialUnix(t.Context(), socket)
	if !errors.Is(err, ErrAuth) {
		t.Errorf("without the certificate: got %v, want %v", err, ErrAuth)
	}
}

func TestAuth_triesInTheOrderOfSSH(t *testing.T) {
	t.Parallel()
	authority := newKey(t, "ed25519")
	held, named, file := newKey(t, "ed25519"), newKey(t, "ed25519"), newKey(t, "ed25519")
	dir := t.TempDir()
	filePath := file.write(t, filepath.Join(dir, "file"), "")
	certify(t, authority, file, filePath+"-cert.pub", nil)
	encrypted := newKey(t, "ed25519").write(t, filepath.Join(dir, "encrypted"), "secret words")
	noError(t, os.WriteFile(filepath.Join(dir, "named.pub"), []byte(named.authorized()), 0o600))
	socket := startAgent(t, agent.AddedKey{PrivateKey: held.private}, agent.AddedKey{PrivateKey: named.private})
	server := startMethodServer(t, &xssh.ServerConfig{
		MaxAuthTries: -1,
		PublicKeyCallback: func(xssh.ConnMetadata, xssh.PublicKey) (*xssh.Permissions, error) {
			return nil, errRefused
		},
		KeyboardInteractiveCallback: func(
			_ xssh.ConnMetadata, ask xssh.KeyboardInteractiveChallenge,
		) (*xssh.Permissions, error) {
			_, _ = ask("", "", []string{"Password: "}, []bool{false})
			return nil, errRefused
		},
		PasswordCallback: func(xssh.ConnMetadata, []byte) (*xssh.Permissions, error) { return nil, errRefused },
	})
	const password = "correct horse"
	cfg := server.config(t)
	cfg.Password, cfg.Agent = password, nil
	lines := []string{
		"IdentityFile " + filePath, "IdentityFile " + filepath.Join(dir, "named"), "IdentityFile " + encrypted,
		"IdentityAgent " + socket,
	}
	inAgent := func(k testKey) string {
		return "agent key ssh-ed25519 " + xssh.FingerprintSHA256(k.signer.PublicKey())
	}
	const refused = "not accepted by the server"
	attempts := []AuthAttempt{
		{Method: "publickey", Credential: encrypted, Outcome: "the key is encrypted and there is no passphrase"},
		{Method: "publickey", Credential: inAgent(named), Outcome: refused},
		{Method: "publickey", Credential: inAgent(held), Outcome: refused},
		{Method: "publickey", Credential: filePath + "-cert.pub", Outcome: refused},
		{Method: "publickey", Credential: filePath, Outcome: refused},
		{Method: "keyboard-interactive", Outcome: "password refused"},
		{Method: "password", Outcome: "refused"},
	}
	for _, only := range []bool{false, true} {
		want := attempts
		if only {
			want = append([]AuthAttempt{attempts[0], attempts[1]}, attempts[3:]...)
			lines = append(lines, "IdentitiesOnly yes")
		}
		cfg.ConfigFile = writeFile(t, strings.Join(lines, "\n"))
		_, err := newClient(t, cfg).DialUnix(t.Context(), "/run/any")
		var failure *AuthError
		if !errors.Is(err, ErrAuth) || !errors.As(err, &failure) {
			t.Fatalf("got %v, want an error of kind %v", err, ErrAuth)
		}
		if diff := cmp.Diff(want, failure.Attempts); diff != "" {
			t.Errorf("IdentitiesOnly %t: attempts (-want +got):\n%s", only, diff)
		}
		for _, secret := range []string{password, "secret words"} {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("the error contains a secret: %v", err)
			}
		}
	}
}

func TestAuth_givesThePassword(t *testing.T) {
	t.Parallel()
	const password = "correct horse"
	check := func(given string) (*xssh.Permissions, error) {
		if given != password {
			return nil, errRefused
		}
		return &xssh.Permissions{}, nil
	}
	interactive := func(_ xssh.ConnMetadata, ask xssh.KeyboardInteractiveChallenge) (*xssh.Permissions, error) {
		answers, err := ask("", "", []string{"Password: "}, []bool{false})
		if err != nil {
			return nil, err
		}
		return check(answers[0])
	}
	servers := map[string]*xssh.ServerConfig{
		"password": {PasswordCallback: func(_ xssh.ConnMetadata, given []byte) (*xssh.Permissions, error) {
			return check(string(given))
		}},
		"keyboard-interactive": {KeyboardInteractiveCallback: interactive},
	}
	for method, config := range servers {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			cfg := startMethodServer(t, config).config(t)
			cfg.Password = password
			checkEcho(t, newClient(t, cfg), "/run/any")

			cfg.Password = "wrong horse"
			_, err := newClient(t, cfg).DialUnix(t.Context(), "/run/any")
			if !errors.Is(err, ErrAuth) {
				t.Errorf("wrong password: got %v, want %v", err, ErrAuth)
			}
		})
	}
}

func TestAuth_passesSeveralSteps(t *testing.T) {
	t.Parallel()
	key := newKey(t, "ed25519")
	second := xssh.ServerAuthCallbacks{
		PasswordCallback: func(xssh.ConnMetadata, []byte) (*xssh.Permissions, error) { return &xssh.Permissions{}, nil },
	}
	server := startMethodServer(t, &xssh.ServerConfig{
		PublicKeyCallback: func(xssh.ConnMetadata, xssh.PublicKey) (*xssh.Permissions, error) {
			return nil, &xssh.PartialSuccessError{Next: second}
		},
	})
	cfg := server.config(t)
	cfg.PrivateKeyFile, cfg.Password = key.write(t, filepath.Join(t.TempDir(), "id"), ""), "second step"
	checkEcho(t, newClient(t, cfg), "/run/any")
}

func TestAuth_saysWhatIsWrong(t *testing.T) {
	t.Parallel()
	key := newKey(t, "ed25519")
	server := startSSHD(t, "")
	encrypted := key.write(t, filepath.Join(t.TempDir(), "id"), "open sesame")
	tests := map[string]struct {
		change func(*Config)
		want   AuthAttempt
	}{
		"not authorized": {
			change: func(*Config) {},
			want:   AuthAttempt{Method: "publickey", Outcome: "not accepted by the server"},
		},
		"encrypted": {
			change: func(c *Config) { c.PrivateKeyFile = encrypted },
			want:   AuthAttempt{Method: "publickey", Outcome: "the key is encrypted and there is no passphrase"},
		},
		"wrong passphrase": {
			change: func(c *Config) { c.PrivateKeyFile, c.Passphrase = encrypted, "open barley" },
			want:   AuthAttempt{Method: "publickey", Outcome: "the passphrase doesn't open the key"},
		},
		"public key": {
			change: func(c *Config) { c.PrivateKeyFile = writeFile(t, key.authorized()) },
			want: AuthAttempt{
				Method: "publickey", Outcome: "this is a public key, and the agent doesn't hold its private key",
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := server.config(t, key)
			test.change(&cfg)
			_, err := newClient(t, cfg).DialUnix(t.Context(), "/run/any")
			var failure *AuthError
			if !errors.Is(err, ErrAuth) || !errors.As(err, &failure) {
				t.Fatalf("got %v, want an error of kind %v", err, ErrAuth)
			}
			test.want.Credential = cfg.PrivateKeyFile
			if diff := cmp.Diff([]AuthAttempt{test.want}, failure.Attempts); diff != "" {
				t.Errorf("attempts (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAuth_skipsAnEncryptedKeyWhenAnotherWorks(t *testing.T) {
	t.Parallel()
	key := newKey(t, "ed25519")
	server := startSSHD(t, key.authorized())
	cfg := server.config(t, key)
	encrypted := newKey(t, "rsa").write(t, filepath.Join(t.TempDir(), "id"), "open sesame")
	cfg.ConfigFile = writeFile(t, "IdentityFile "+encrypted+"\nIdentityFile "+cfg.PrivateKeyFile+"\n")
	cfg.PrivateKeyFile = ""
	checkEcho(t, newClient(t, cfg), echoSocket(t))
}

func TestAuth_demandsTheAgentWhenTold(t *testing.T) {
	t.Parallel()
	key := newKey(t, "ed25519")
	server := startSSHD(t, key.authorized())
	cfg := server.config(t, key)
	always := true
	cfg.Agent = &always
	cfg.ConfigFile = writeFile(t, "IdentityAgent "+filepath.Join(t.TempDir(), "missing.sock")+"\n")
	_, err := newClient(t, cfg).DialUnix(t.Context(), "/run/any")
	if !errors.Is(err, ErrAuth) || !errors.Is(err, errNoAgent) {
		t.Errorf("got %v, want %v", err, errNoAgent)
	}
}

func TestNewClient_refusesWhatCannotWork(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "missing")
	tests := map[string]Config{
		"no host":              {},
		"not a host":           {Host: "-oProxyCommand=x"},
		"port":                 {Host: "kvm1", Port: 70000},
		"two keys":             {Host: "kvm1", PrivateKey: "x", PrivateKeyFile: "y"},
		"no such key file":     {Host: "kvm1", PrivateKeyFile: missing},
		"no such certificate":  {Host: "kvm1", CertificateFile: missing},
		"no such config":       {Host: "kvm1", ConfigFile: missing},
		"not a key":            {Host: "kvm1", PrivateKey: "secret, but not a key"},
		"unknown checking":     {Host: "kvm1", HostKeyChecking: "maybe"},
		"not a jump host":      {Host: "kvm1", JumpHosts: []string{"bastion:ssh"}},
		"a command":            {Host: "kvm1;reboot"},
		"a substitution":       {Host: "kvm1", User: "`reboot`"},
		"an option":            {Host: "kvm1", User: "root -oProxyCommand=x"},
		"a jump host's":        {Host: "kvm1", JumpHosts: []string{"$(reboot)@bastion"}},
		"a jump host":          {Host: "kvm1", JumpHosts: []string{"bastion|reboot"}},
		"negative timeout":     {Host: "kvm1", ConnectTimeout: -1},
		"negative alive count": {Host: "kvm1", KeepaliveCountMax: -1},
	}
	for name, cfg := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := NewClient(cfg)
			if !errors.Is(err, ErrConfig) {
				t.Fatalf("got %v, want %v", err, ErrConfig)
			}
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("the error contains the key: %v", err)
			}
		})
	}
}

// touchedAgent signs only after a while, as one that waits until a user touches the key.
type touchedAgent struct {
	agent.ExtendedAgent
	after time.Duration
}

func (a touchedAgent) Sign(key xssh.PublicKey, data []byte) (*xssh.Signature, error) {
	<-time.After(a.after)
	return a.ExtendedAgent.Sign(key, data)
}

func (a touchedAgent) SignWithFlags(
	key xssh.PublicKey, data []byte, flags agent.SignatureFlags,
) (*xssh.Signature, error) {
	<-time.After(a.after)
	return a.ExtendedAgent.SignWithFlags(key, data, flags)
}

// TestAuth_waitsForATouch: connect_timeout bounds the way to the host, and not the user who has to touch a key.
func TestAuth_waitsForATouch(t *testing.T) {
	t.Parallel()
	key := newKey(t, "ed25519")
	ring, ok := agent.NewKeyring().(agent.ExtendedAgent)
	if !ok {
		t.Fatal("the keyring signs with no flags")
	}
	noError(t, ring.Add(agent.AddedKey{PrivateKey: key.private}))
	const timeout = 15 * time.Second
	cfg := startSSHD(t, key.authorized()).config(t, key)
	cfg.PrivateKeyFile, cfg.Agent, cfg.ConnectTimeout = "", nil, timeout
	cfg.ConfigFile = writeFile(t, "IdentityAgent "+serveAgent(t, touchedAgent{ring, timeout + time.Second})+"\n")
	file := writeFile(t, "here\n")
	text, err := newClient(t, cfg).ReadEnd(t.Context(), file, 5)
	noError(t, err)
	if string(text) != "here\n" {
		t.Errorf("got %q", text)
	}
}

// TestAuth_offersNamedCertificatesFirst: servers count attempts, and agents hold many keys.
func TestAuth_offersNamedCertificatesFirst(t *testing.T) {
	t.Parallel()
	authority, key := newKey(t, "ed25519"), newKey(t, "ed25519")
	server := startSSHD(t, "", "TrustedUserCAKeys "+writeFile(t, authority.authorized()), "MaxAuthTries 3")
	held := []agent.AddedKey{{PrivateKey: key.private}}
	for range 6 {
		held = append([]agent.AddedKey{{PrivateKey: newKey(t, "ed25519").private}}, held...)
	}
	cfg := server.config(t, key)
	cfg.PrivateKeyFile, cfg.Agent = "", nil
	cert := filepath.Join(t.TempDir(), "cert.pub")
	certify(t, authority, key, cert, nil)
	cfg.ConfigFile = writeFile(t, "IdentityAgent "+startAgent(t, held...)+"\nCertificateFile "+cert+"\n")
	checkEcho(t, newClient(t, cfg), echoSocket(t))
}

// TestAuth_asksNoAgentBeforeAnExplicitKey: one that hangs doesn't matter where it isn't needed.
func TestAuth_asksNoAgentBeforeAnExplicitKey(t *testing.T) {
	t.Parallel()
	key := newKey(t, "ed25519")
	server := startSSHD(t, key.authorized())
	path := filepath.Join(t.TempDir(), "agent.sock")
	asked := make(chan struct{}, 1)
	serveSocket(t, path, func(conn net.Conn) {
		asked <- struct{}{}
		_, _ = io.Copy(io.Discard, conn)
	})
	cfg := server.config(t, key)
	cfg.Agent, cfg.ConfigFile = nil, writeFile(t, "IdentityAgent "+path+"\n")
	checkEcho(t, newClient(t, cfg), echoSocket(t))
	select {
	case <-asked:
		t.Error("the agent was asked")
	default:
	}
}

func TestAuth_saysThatACertificateHasExpired(t *testing.T) {
	t.Parallel()
	authority, key := newKey(t, "ed25519"), newKey(t, "ed25519")
	server := startSSHD(t, "", "TrustedUserCAKeys "+writeFile(t, authority.authorized()))
	cfg := server.config(t, key)
	certify(t, authority, key, cfg.PrivateKeyFile+"-cert.pub", func(c *xssh.Certificate) { c.ValidBefore = 1 })
	_, err := newClient(t, cfg).DialUnix(t.Context(), "/run/any")
	if !errors.Is(err, ErrAuth) || !strings.Contains(err.Error(), "the certificate expired at 1970-01-01") {
		t.Errorf("got %v", err)
	}
}
