package ssh

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	xssh "golang.org/x/crypto/ssh"
)

// passwordServer accepts one password and notes whatever it is told.
type passwordServer struct {
	*methodServer
	mu   sync.Mutex
	told []string
}

const rightPassword = "correct horse"

func startPasswordServer(t *testing.T) *passwordServer {
	t.Helper()
	s := &passwordServer{}
	check := func(given string) (*xssh.Permissions, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.told = append(s.told, given)
		if given != rightPassword {
			return nil, errRefused
		}
		return &xssh.Permissions{}, nil
	}
	s.methodServer = startMethodServer(t, &xssh.ServerConfig{
		PasswordCallback: func(_ xssh.ConnMetadata, given []byte) (*xssh.Permissions, error) {
			return check(string(given))
		},
		KeyboardInteractiveCallback: func(
			_ xssh.ConnMetadata, ask xssh.KeyboardInteractiveChallenge,
		) (*xssh.Permissions, error) {
			answers, err := ask("", "", []string{"Password: "}, []bool{false})
			if err != nil {
				return nil, err
			}
			return check("answered " + answers[0])
		},
	})
	return s
}

// TestAuth_keepsThePasswordFromImpostors: whoever isn't known to be the host isn't given what the host would be given.
func TestAuth_keepsThePasswordFromImpostors(t *testing.T) {
	t.Parallel()
	changed := newKey(t, "ed25519").authorized()
	tests := map[string]struct {
		checking, config string
		known            func(*passwordServer) string // What is known of the host, after its name.
		kind             error
	}{
		"insecure, unknown": {
			checking: HostKeyInsecure, kind: ErrAuth, known: func(*passwordServer) string { return "" },
		},
		"insecure, changed": {
			checking: HostKeyInsecure, kind: ErrAuth, known: func(*passwordServer) string { return changed },
		},
		"insecure, known": {
			checking: HostKeyInsecure, known: func(s *passwordServer) string { return s.host.authorized() },
		},
		"StrictHostKeyChecking no, changed": {
			config: "StrictHostKeyChecking no\n", kind: ErrHostKey, known: func(*passwordServer) string { return changed },
		},
		"StrictHostKeyChecking off, new": {
			config: "StrictHostKeyChecking off\n", known: func(*passwordServer) string { return "" },
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := startPasswordServer(t)
			cfg := server.config(t)
			cfg.Password, cfg.HostKeyChecking = rightPassword, test.checking
			known := ""
			if key := test.known(server); key != "" {
				known = fmt.Sprintf("[127.0.0.1]:%d %s", server.addr.Port(), key)
			}
			cfg.KnownHostsFile = writeFile(t, known)
			cfg.ConfigFile = writeFile(t, "IdentityFile none\n"+test.config)
			conn, err := newClient(t, cfg).DialUnix(t.Context(), "/run/any")
			if err == nil {
				_ = conn.Close()
			}
			if test.kind == nil && err != nil || !errors.Is(err, test.kind) {
				t.Errorf("got %v, want kind %v", err, test.kind)
			}
			if test.kind != nil && len(server.told) > 0 {
				t.Errorf("was told %q", server.told)
			}
		})
	}
}

// TestAuth_usesTheMethodsOfSSHConfig: what ssh_config forbids isn't tried, and what it prefers comes first.
func TestAuth_usesTheMethodsOfSSHConfig(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		config string
		told   []string
	}{
		"all":              {"", []string{"answered " + rightPassword, rightPassword}},
		"no password":      {"PasswordAuthentication no\n", []string{"answered " + rightPassword}},
		"no questions":     {"KbdInteractiveAuthentication no\n", []string{rightPassword}},
		"no questions yet": {"ChallengeResponseAuthentication no\n", []string{rightPassword}},
		"neither":          {"PasswordAuthentication no\nKbdInteractiveAuthentication no\n", nil},
		"preferred":        {"PreferredAuthentications publickey,password\n", []string{rightPassword}},
		"none of ours":     {"PreferredAuthentications hostbased\n", nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := startPasswordServer(t)
			cfg := server.config(t)
			cfg.Password = rightPassword
			cfg.ConfigFile = writeFile(t, "IdentityFile none\n"+test.config)
			conn, err := newClient(t, cfg).DialUnix(t.Context(), "/run/any")
			if err == nil {
				_ = conn.Close()
			} else if !errors.Is(err, ErrAuth) {
				t.Errorf("got %v", err)
			}
			if !slices.Equal(server.told, test.told) {
				t.Errorf("told %q, want %q", server.told, test.told)
			}
		})
	}
}

// TestAuth_passesWithoutQuestions: a server that asks nothing, as it calls the user's telephone, needs no password.
func TestAuth_passesWithoutQuestions(t *testing.T) {
	t.Parallel()
	server := startMethodServer(t, &xssh.ServerConfig{
		KeyboardInteractiveCallback: func(
			_ xssh.ConnMetadata, ask xssh.KeyboardInteractiveChallenge,
		) (*xssh.Permissions, error) {
			_, err := ask("", "Confirm the login on your telephone.", nil, nil)
			return &xssh.Permissions{}, err
		},
	})
	checkEcho(t, newClient(t, server.config(t)), "/run/any")
}
