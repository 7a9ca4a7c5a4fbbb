package ssh

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	xssh "golang.org/x/crypto/ssh"
)

// settings is what the tests below look at of a target.
type settings struct {
	Address, User, Jump, Checking, Alias string
	Identities, Certificates, KnownHosts []string
	IdentitiesOnly                       bool
	Connect, Alive                       time.Duration
	AliveCount                           int
}

func settingsOf(t *target) settings {
	return settings{
		Address: t.address(), User: t.user, Jump: t.jump, Checking: t.checking, Alias: t.hostKeyAlias,
		Identities: t.identityFiles, Certificates: t.certificateFiles, KnownHosts: t.userKnownHosts,
		IdentitiesOnly: t.identitiesOnly, Connect: t.connectTimeout, Alive: t.keepaliveInterval,
		AliveCount: t.keepaliveCountMax,
	}
}

// plain is what holds when nothing says otherwise, with home as the home directory.
func plain(home, localUser string) settings {
	s := settings{
		Address: "kvm1:22", User: localUser, Checking: HostKeyStrict, Certificates: []string{},
		KnownHosts: []string{home + "/.ssh/known_hosts", home + "/.ssh/known_hosts2"},
		Connect:    defaultConnectTimeout, Alive: defaultKeepaliveInterval, AliveCount: defaultKeepaliveCountMax,
	}
	for _, file := range defaultIdentities {
		s.Identities = append(s.Identities, expandHome(file, home))
	}
	return s
}

func TestResolve_readsSSHConfig(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("RACK", "seven")
	noError(t, os.MkdirAll(home+"/.ssh/conf.d", 0o700))
	noError(t, os.WriteFile(home+"/.ssh/conf.d/a", []byte("Host kvm1\n  Port 2201\n"), 0o600))
	noError(t, os.WriteFile(home+"/.ssh/conf.d/b", []byte("Port 2202\nHost other\n  User nobody\n"), 0o600))
	tests := map[string]struct {
		text string
		cfg  Config
		want func(*settings)
	}{
		"nothing": {want: func(*settings) {}},
		"first value wins": {
			text: "Host kvm1\n User first\nHost *\n User second\n Port 2222\n",
			want: func(s *settings) { s.User, s.Address = "first", "kvm1:2222" },
		},
		"patterns": {
			text: "Host kvm? !kvm2\n User a\nHost !kvm1 *\n Port 1\nHost KVM*\n Port 3\n" +
				"Match originalhost KVM*\n Port 2\n",
			want: func(s *settings) { s.User, s.Address = "a", "kvm1:2" },
		},
		"syntax": {
			text: "# comment\n\tHost\t\"kvm1\"\tkvm9 # another\nuser = \"the admin\"\n  PORT=2222\r\n",
			want: func(s *settings) { s.User, s.Address = "the admin", "kvm1:2222" },
		},
		"host name": {
			text: "Host kvm1\n HostName %h.example.net\n",
			want: func(s *settings) { s.Address = "kvm1.example.net:22" },
		},
		"include": {
			text: "Include conf.d/* missing\nHost *\n Port 99\n",
			want: func(s *settings) { s.Address = "kvm1:2201" },
		},
		"include for others": {
			text: "Host other\n Include ~/.ssh/conf.d/*\n",
			want: func(*settings) {},
		},
		"include for this one": {
			text: "Host kvm1\n Include conf.d/b\n User after\n",
			want: func(s *settings) { s.Address, s.User = "kvm1:2202", "after" },
		},
		"files add up": {
			text: "IdentityFile ~/.ssh/%r@%h-%p\nHost kvm1\n Port 2222\n User admin\n IdentityFile /keys/${RACK}/100%%\n" +
				" CertificateFile %d/cert\n IdentitiesOnly yes\n",
			want: func(s *settings) {
				s.Address, s.User, s.IdentitiesOnly = "kvm1:2222", "admin", true
				s.Identities = []string{home + "/.ssh/admin@kvm1-2222", "/keys/seven/100%"}
				s.Certificates = []string{home + "/cert"}
			},
		},
		"no identity": {
			text: "IdentityFile none\n", want: func(s *settings) { s.Identities = []string{} },
		},
		"host keys": {
			text: "UserKnownHostsFile /a ~/b\nHostKeyAlias rack\nStrictHostKeyChecking accept-new\n",
			want: func(s *settings) {
				s.KnownHosts, s.Alias, s.Checking = []string{"/a", home + "/b"}, "rack", HostKeyAcceptNew
			},
		},
		"new host keys recorded": {
			text: "StrictHostKeyChecking no\n", want: func(s *settings) { s.Checking = HostKeyAcceptNew },
		},
		"no user to ask": {
			text: "StrictHostKeyChecking ask\n", want: func(*settings) {},
		},
		"times": {
			text: "ConnectTimeout 3\nServerAliveInterval 1m\nServerAliveCountMax 7\n",
			want: func(s *settings) { s.Connect, s.Alive, s.AliveCount = 3*time.Second, time.Minute, 7 },
		},
		"keepalive off": {
			text: "ServerAliveInterval 0\n", want: func(s *settings) { s.Alive = 0 },
		},
		"match": {
			text: "Match final all\n User last\nMatch originalhost kvm1 !user admin\n Port 1\n" +
				"Match host *.example.net user admin\n Port 2\nHost kvm1\n HostName kvm1.example.net\n User admin\n",
			want: func(s *settings) { s.Address, s.User = "kvm1.example.net:1", "admin" },
		},
		"match final": {
			text: "Match final host *.example.net\n User last\n Port 7\nHost kvm1\n HostName %h.example.net\n Port 8\n",
			want: func(s *settings) { s.Address, s.User = "kvm1.example.net:8", "last" },
		},
		"match that is never reached": {
			text: "Match host other exec \"rm -rf /\"\n User x\n", want: func(*settings) {},
		},
		"jump": {
			text: "User root\nPort 23\nProxyJump %r@jump-%n,%h:%p\n",
			want: func(s *settings) { s.Address, s.User, s.Jump = "kvm1:23", "root", "root@jump-kvm1,kvm1:23" },
		},
		"jump hosts": {
			text: "ProxyJump a,b\nProxyCommand nc %h %p\n", want: func(s *settings) { s.Jump = "a,b" },
		},
		"explicit settings win": {
			text: "User x\nPort 1\nIdentityFile /x\nCertificateFile /x\nUserKnownHostsFile /x\nStrictHostKeyChecking no\n" +
				"ConnectTimeout 1\nServerAliveInterval 1\nServerAliveCountMax 1\n",
			cfg: Config{
				User: "admin", Port: 2222, PrivateKeyFile: "~/k", CertificateFile: "~/c", KnownHostsFile: "~/h",
				HostKeyChecking: HostKeyStrict, ConnectTimeout: time.Minute, KeepaliveInterval: -1, KeepaliveCountMax: 9,
			},
			want: func(s *settings) {
				s.Address, s.User, s.Connect, s.Alive, s.AliveCount = "kvm1:2222", "admin", time.Minute, 0, 9
				s.Identities, s.Certificates = []string{home + "/k"}, []string{home + "/c"}
				s.KnownHosts = []string{home + "/h"}
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			cfg := test.cfg
			cfg.ConfigFile = writeFile(t, test.text)
			got, err := cfg.resolve(t.Context(), hop{user: cfg.User, host: "kvm1", port: cfg.Port}, false)
			noError(t, err)
			want := plain(home, currentUser(t))
			test.want(&want)
			if diff := cmp.Diff(want, settingsOf(got)); diff != "" {
				t.Errorf("settings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestResolve_refusesWhatItCannotHonour(t *testing.T) {
	t.Parallel()
	loop := writeFile(t, "")
	noError(t, os.WriteFile(loop, []byte("Include "+loop+"\n"), 0o600))
	tests := map[string]struct {
		text string
		want string // The part of the message that leads to the cause.
	}{
		"proxy command": {text: "Host kvm1\nProxyCommand nc %z %p\n", want: "ProxyCommand"},
		"proxy's descriptor": {
			text: "Host kvm1\nProxyCommand nc %h %p\nProxyUseFdpass yes\n", want: "ProxyUseFdpass",
		},
		"revoked keys":  {text: "RevokedHostKeys /etc/ssh/revoked\n", want: "RevokedHostKeys"},
		"match tagged":  {text: "\nMatch host kvm1 tagged x\n", want: ":2: match tagged is not supported"},
		"match network": {text: "Match localnetwork 10.0.0.0/8\n", want: ":1: match localnetwork is not supported"},
		"no value":      {text: "Host kvm1\n User\n", want: ":2: user without a value"},
		"open quote":    {text: "User \"admin\n", want: ":1: quote without its end"},
		"include loop":  {text: "Include " + loop + "\n", want: "files deep"},
		"port":          {text: "Port ssh\n", want: "port \"ssh\""},
		"time":          {text: "ConnectTimeout soon\n", want: "connecttimeout \"soon\""},
		"token":         {text: "IdentityFile %T\n", want: "token %T"},
		"variable":      {text: "IdentityFile ${VIRTFLEET_NOT_SET}/id\n", want: "VIRTFLEET_NOT_SET"},
		"other's home":  {text: "IdentityFile ~bob/id\n", want: "another user's home"},
		"jump token":    {text: "ProxyJump %d\n", want: "token %d is not supported"},
		"jump syntax":   {text: "ProxyJump a:b:c@,d\n", want: "ProxyJump"},
		"jump loop":     {text: "Host *\nProxyJump kvm2\n", want: "does ProxyJump loop"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := newClient(t, Config{Host: "kvm1", ConfigFile: writeFile(t, test.text)})
			_, err := client.DialUnix(t.Context(), "/run/any")
			if !errors.Is(err, ErrConfig) || !strings.Contains(fmt.Sprint(err), test.want) {
				t.Errorf("got %v, want kind %v and %q", err, ErrConfig, test.want)
			}
		})
	}
}

func TestResolve_survivesAnyInput(t *testing.T) {
	t.Parallel()
	lines := []string{"=", "Host", "Match", "Match !", "Match host", "\"", "\\", "Include", "a=", "Host !", "%"}
	for _, line := range lines {
		r := &configReader{ctx: t.Context(), original: "kvm1", options: options{}}
		_ = r.readFiles([]configFile{{path: writeFile(t, line), required: true}})
	}
}

func TestParseHop_readsEachForm(t *testing.T) {
	t.Parallel()
	tests := map[string]hop{
		"kvm1": {host: "kvm1"}, "kvm1:22": {host: "kvm1", port: 22}, "ops@kvm1:2222": {user: "ops", host: "kvm1", port: 2222},
		"[fe80::1]:22": {host: "fe80::1", port: 22}, "ops@[::1]": {user: "ops", host: "::1"}, "::1": {host: "::1"},
		"ssh://ops@kvm1:22": {user: "ops", host: "kvm1", port: 22}, "a@b@kvm1": {user: "a@b", host: "kvm1"},
		"": {}, "@kvm1": {}, "kvm1:0": {}, "kvm1:x": {}, "ssh://kvm1/path": {}, "kvm 1": {}, "[::1": {},
	}
	for text, want := range tests {
		got, err := parseHop(text)
		if got != want || (err != nil) != (want == hop{}) {
			t.Errorf("%q: got %+v, %v, want %+v", text, got, err, want)
		}
	}
}

func TestJump_goesThroughSeveralHosts(t *testing.T) {
	t.Parallel()
	key := newKey(t, "ed25519")
	first, second, host := startSSHD(t, key.authorized()), startSSHD(t, key.authorized()), startSSHD(t, key.authorized())
	socket := echoSocket(t)
	cfg := host.config(t, key)
	var known, entries strings.Builder
	names := []string{"first", "second", "kvm1"}
	for i, s := range []*sshd{first, second, host} {
		known.WriteString(names[i] + " " + s.hostKeys["ed25519"].authorized())
		fmt.Fprintf(&entries, "Host %s\n HostName 127.0.0.1\n Port %d\n User %s\n HostKeyAlias %s\n IdentityFile %s\n",
			names[i], s.addr.Port(), currentUser(t), names[i], cfg.PrivateKeyFile)
	}
	cfg.Host, cfg.Port, cfg.User, cfg.PrivateKeyFile = "kvm1", 0, "", ""
	cfg.KnownHostsFile = writeFile(t, known.String())

	ways := map[string]struct {
		config string
		jumps  []string
	}{
		"list":     {config: entries.String() + "Host kvm1\n ProxyJump first,second\n"},
		"chain":    {config: entries.String() + "Host kvm1\n ProxyJump second\nHost second\n ProxyJump first\n"},
		"explicit": {config: entries.String() + "Host kvm1\n ProxyJump nowhere\n", jumps: []string{"first", "second"}},
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			before := []int{first.connections(), second.connections(), host.connections()}
			cfg := cfg
			cfg.ConfigFile, cfg.JumpHosts = writeFile(t, way.config), way.jumps
			client := newClient(t, cfg)
			checkEcho(t, client, socket)
			checkEcho(t, client, socket)
			after := []int{first.connections() - 1, second.connections() - 1, host.connections() - 1}
			if diff := cmp.Diff(before, after); diff != "" {
				t.Errorf("connections beyond one each (-want +got):\n%s", diff)
			}
		})
	}

	t.Run("changed key on the way", func(t *testing.T) {
		cfg := cfg
		cfg.ConfigFile = writeFile(t, ways["list"].config)
		cfg.KnownHostsFile = writeFile(t, strings.Replace(known.String(), "second ssh-ed25519 ",
			"second "+strings.TrimSpace(newKey(t, "ed25519").authorized())+"\nx ssh-ed25519 ", 1))
		_, err := newClient(t, cfg).DialUnix(t.Context(), socket)
		var refused *HostKeyError
		if !errors.As(err, &refused) || refused.Name != "second" || refused.Problem != HostKeyChanged {
			t.Errorf("got %v, want the changed key of the second host to be refused", err)
		}
	})

	t.Run("unreachable from the last jump host", func(t *testing.T) {
		cfg := cfg
		text := fmt.Sprintf("Host kvm1\n Port 1\n ProxyJump first\n%s", &entries) // Nothing listens there.
		cfg.ConfigFile = writeFile(t, text)
		_, err := newClient(t, cfg).DialUnix(t.Context(), socket)
		if !errors.Is(err, ErrUnreachable) || !strings.Contains(fmt.Sprint(err), "through jump host") {
			t.Errorf("got %v, want kind %v and the jump host", err, ErrUnreachable)
		}
	})
}

// TestJump_keepsThePasswordFromJumpHosts: the password is the host's own, however it is reached.
func TestJump_keepsThePasswordFromJumpHosts(t *testing.T) {
	t.Parallel()
	const password = "for the host alone"
	var mu sync.Mutex
	var told []string
	tell := func(name, what string) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, name+": "+what)
	}
	// Each asks in both ways, and is content with a key only if it is the jump host.
	server := func(name string, key testKey) *methodServer {
		return startMethodServer(t, &xssh.ServerConfig{
			PublicKeyCallback: func(_ xssh.ConnMetadata, offered xssh.PublicKey) (*xssh.Permissions, error) {
				if sameKey(offered, key.signer.PublicKey()) {
					return &xssh.Permissions{}, nil
				}
				return nil, errRefused
			},
			KeyboardInteractiveCallback: func(
				_ xssh.ConnMetadata, ask xssh.KeyboardInteractiveChallenge,
			) (*xssh.Permissions, error) {
				answers, err := ask("", "", []string{"Password: "}, []bool{false})
				if err == nil {
					tell(name, answers[0])
				}
				return nil, errRefused
			},
			PasswordCallback: func(_ xssh.ConnMetadata, given []byte) (*xssh.Permissions, error) {
				tell(name, string(given))
				return &xssh.Permissions{}, nil
			},
		}, func(offered xssh.NewChannel) bool {
			if offered.ChannelType() != "direct-tcpip" {
				return false
			}
			forwardTCP(t, offered)
			return true
		})
	}
	key := newKey(t, "ed25519")
	jump, host := server("jump", key), server("host", testKey{signer: newKey(t, "ed25519").signer})
	cfg := host.config(t)
	cfg.Password = password
	cfg.KnownHostsFile = writeFile(t, fmt.Sprintf("[127.0.0.1]:%d %s[127.0.0.1]:%d %s",
		jump.addr.Port(), jump.host.authorized(), host.addr.Port(), host.host.authorized()))
	cfg.JumpHosts = []string{fmt.Sprintf("alice@127.0.0.1:%d", jump.addr.Port())}

	_, err := newClient(t, cfg).DialUnix(t.Context(), "/run/any")
	if !errors.Is(err, ErrAuth) || len(told) > 0 {
		t.Errorf("without a key for the jump host: got %v, and told %q", err, told)
	}
	cfg.PrivateKeyFile = key.write(t, filepath.Join(t.TempDir(), "id"), "")
	checkEcho(t, newClient(t, cfg), "/run/any")
	if want := []string{"host: " + password, "host: " + password}; !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
}

func TestConfig_neverPrintsSecrets(t *testing.T) {
	t.Parallel()
	cfg := Config{Host: "kvm1", PrivateKey: "hidden", Passphrase: "hidden", Password: "hidden"}
	var log syncBuffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		fmt.Fprintf(&log, verb, cfg)
		fmt.Fprintf(&log, verb, &cfg)
	}
	if strings.Contains(log.String(), "hidden") {
		t.Errorf("printed: %s", &log)
	}
}

func TestMatchWildcard_matchesAsSSHDoes(t *testing.T) {
	t.Parallel()
	tests := []struct {
		pattern, name string
		want          bool
	}{
		{"*", "", true},
		{"*", "kvm1", true},
		{"kvm?", "kvm1", true},
		{"kvm?", "kvm", false},
		{"*.net", "a.b.net", true},
		{"a*b*c", "aXbYbZc", true},
		{"a*b", "ab", true},
		{"a*b", "abc", false},
		{"", "", true},
		{"", "a", false},
		{"10.0.?.*", "10.0.1.22", true},
		{"[a-z]", "a", false},
		{"a**", "a", true},
	}
	for _, test := range tests {
		if got := matchWildcard(test.pattern, test.name); got != test.want {
			t.Errorf("%q against %q: got %t", test.pattern, test.name, got)
		}
	}
}
