package ssh

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestProxyCommand_makesTheConnection(t *testing.T) {
	t.Parallel()
	needNetcat(t, "no")
	key := newKey(t, "ed25519")
	server := startSSHD(t, key.authorized())
	socket := echoSocket(t)
	file := filepath.Join(t.TempDir(), "proxy")
	cfg := server.config(t, key)
	host := fmt.Sprintf("HostKeyAlias %s\n", server.name())
	cfg.Host = "kvm1"
	for name, config := range map[string]string{
		"the host": "Host kvm1\n HostName 127.0.0.1\n ProxyCommand sh -c 'echo $$ %n %r >" + file +
			"; exec nc %h %p'\n" + host,
		"a jump host": fmt.Sprintf("Host kvm1\n HostName 127.0.0.1\n ProxyJump bastion\nHost bastion\n HostName 127.0.0.1\n"+
			" Port %d\n User %s\n ProxyCommand sh -c 'echo $$ kvm1 %%r >%s; exec nc %%h %%p'\nHost *\n", server.addr.Port(),
			currentUser(t), file) + host,
	} {
		cfg.ConfigFile = writeFile(t, config)
		client := newClient(t, cfg)
		checkEcho(t, client, socket)
		text, err := os.ReadFile(file)
		noError(t, err)
		var pid int
		if _, err := fmt.Sscanf(string(text), "%d", &pid); err != nil ||
			!strings.HasSuffix(strings.TrimSpace(string(text)), " kvm1 "+currentUser(t)) {
			t.Errorf("%s: the command said %q", name, text)
		}
		noError(t, client.Close())
		ended(t, pid)
	}
}

// TestProxyCommand_endsWithItsConnection: whatever it started ends as well, also where it ignores being hung up.
func TestProxyCommand_endsWithItsConnection(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "pid")
	cfg := Config{
		Host: "kvm1", Agent: new(bool), ConnectTimeout: patience,
		ConfigFile: writeFile(t, "ProxyCommand sh -c 'trap \"\" HUP; echo $$ >"+file+"; while :; do sleep 100; done'\n"),
	}
	client := newClient(t, cfg)
	finished := make(chan error, 1)
	go func() {
		_, err := client.DialUnix(t.Context(), "/run/any")
		finished <- err
	}()
	pid := pidIn(t, file)
	noError(t, client.Close())
	if err := <-finished; err == nil {
		t.Error("it connected")
	}
	ended(t, pid)
}

func TestProxyCommand_saysWhatItComplainedAbout(t *testing.T) {
	t.Parallel()
	cfg := Config{
		Host: "kvm1", Agent: new(bool),
		ConfigFile: writeFile(t, "ProxyCommand sh -c 'echo the bastion is closed >&2; exit 3'\n"),
	}
	_, err := newClient(t, cfg).DialUnix(t.Context(), "/run/any")
	if !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), "the bastion is closed") {
		t.Errorf("got %v", err)
	}
}

// TestSSHConfig_agreesWithSSH compares what we read with what the ssh program reads.
func TestSSHConfig_agreesWithSSH(t *testing.T) {
	t.Parallel()
	program, err := exec.LookPath("ssh")
	if err != nil {
		lacks(t, "OpenSSH's client: %v", err)
	}
	include := t.TempDir()
	noError(t, os.Mkdir(filepath.Join(include, "folder"), 0o700))
	noError(t, os.WriteFile(filepath.Join(include, "a"), []byte("Host kvm1\n ConnectTimeout 9\n"), 0o600))
	configs := map[string]string{
		"case of hosts":       "Host KVM1\n Port 2\nHost kvm1\n Port 3\n",
		"case of match":       "Match host KVM1\n Port 2\n",
		"case of originals":   "Match originalhost KVM1\n Port 2\n",
		"case of users":       "User Admin\nMatch user admin\n Port 2\n",
		"names":               "Host kvm?\n HostName %h.example.net\nMatch host *.example.net\n User x\n",
		"names in upper case": "HostName KVM1.Example.Net\nHostKeyAlias Rack\n",
		"folders included":    "Include " + include + "/*\nPort 4\n",
		"exec that succeeds":  "Match exec \"test %h = kvm1 -a %p = 22 -a %n = kvm1\"\n Port 5\n",
		"exec that fails":     "Match exec false\n Port 6\n",
		"exec, not":           "Match !exec \"false\"\n Port 7\n",
		"exec with its port":  "Port 8\nMatch exec \"test %p = 8\"\n User y\n",
		"exec, never":         "Match host other exec \"touch " + include + "/touched\"\n Port 9\n",
		"exec, host name":     "HostName h1\nMatch exec \"test %h = h1\"\n User z\n",
		"final":               "Match final exec true\n Port 10\nHost kvm1\n User f\n",
		"proxy command":       "ProxyCommand nc %h %p\nProxyJump b\n",
		"jump first":          "ProxyJump b\nProxyCommand nc %h %p\n",
		"old names": "ChallengeResponseAuthentication no\nPubkeyAcceptedKeyTypes ssh-ed25519\n" +
			"PreferredAuthentications publickey\n",
		"switches": "PasswordAuthentication no\nPubkeyAuthentication no\nIdentitiesOnly yes\n",
		"algorithms": "Ciphers aes256-ctr\nMACs hmac-sha2-256\nKexAlgorithms ecdh-sha2-nistp256\n" +
			"CASignatureAlgorithms ssh-ed25519\n",
		"host keys": "HostKeyAlgorithms ssh-ed25519\nHashKnownHosts yes\nUserKnownHostsFile /a /b\n",
		"files":     "IdentityFile /a\nIdentityFile /b\nIdentityFile /a\nCertificateFile /c\n",
		"times":     "ConnectTimeout 3\nServerAliveInterval 7\nServerAliveCountMax 9\n",
		"quotes":    "User \"the admin\"\nPort=77\n",
		"commands":  "LocalCommand sh -c 'echo it is' \"%h\" # all of it\nRemoteCommand echo it\\'s\nPort 11\n",
	}
	keywords := []string{
		"port", "user", "proxycommand", "proxyjump", "connecttimeout", "serveraliveinterval", "serveralivecountmax",
		"passwordauthentication", "kbdinteractiveauthentication", "pubkeyauthentication", "preferredauthentications",
		"identitiesonly", "ciphers", "macs", "kexalgorithms", "hostkeyalgorithms", "pubkeyacceptedalgorithms",
		"casignaturealgorithms", "hashknownhosts", "identityfile", "certificatefile", "userknownhostsfile", "hostkeyalias",
		"localcommand", "remotecommand",
	}
	for name, text := range configs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := writeFile(t, text)
			out, err := exec.CommandContext(t.Context(), program, "-G", "-F", file, "kvm1").Output()
			noError(t, err)
			theirs := map[string][]string{}
			for line := range strings.Lines(string(out)) {
				keyword, value, _ := strings.Cut(strings.TrimSpace(line), " ")
				theirs[keyword] = append(theirs[keyword], value)
			}
			r := &configReader{ctx: t.Context(), original: "kvm1", localUser: currentUser(t)}
			noError(t, r.readFiles([]configFile{{path: file, required: true}}))
			for _, keyword := range keywords {
				ours := strings.Join(r.options[keyword], " ")
				want := strings.Join(theirs[keyword], " ")
				if keyword == "hostkeyalias" {
					ours = strings.ToLower(ours) // As it is taken over.
				}
				if ours == "" || switchValues[want] == switchValues[ours] && switchValues[want] != "" {
					continue // What isn't set there is a default, which isn't read from the file.
				}
				if ours != want {
					t.Errorf("%s: got %q, and ssh %q", keyword, ours, want)
				}
			}
			for _, keyword := range []string{"port", "user"} {
				ours := r.options.firstArgument(keyword)
				if ours == "" {
					ours = map[string]string{"port": "22", "user": currentUser(t)}[keyword]
				}
				if want := strings.Join(theirs[keyword], " "); ours != want {
					t.Errorf("%s: got %q, and ssh %q", keyword, ours, want)
				}
			}
		})
	}
	t.Cleanup(func() {
		if _, err := os.Stat(filepath.Join(include, "touched")); err == nil {
			t.Error("a command was run for another host")
		}
	})
}

// TestExpandTokens_agreesWithSSH compares the expanded tokens with those of the ssh program: in a file name, and while
// the file is being read.
func TestExpandTokens_agreesWithSSH(t *testing.T) {
	t.Parallel()
	program, err := exec.LookPath("ssh")
	if err != nil {
		lacks(t, "OpenSSH's client: %v", err)
	}
	said := filepath.Join(t.TempDir(), "said")
	const tokens = "%% %C %L %d %h %i %k %l %n %p %r %u"
	for name, settings := range map[string]string{
		"defaults": "", "all set": "HostName %h.Example.net\nPort 77\nUser bob\n", "an alias": "HostKeyAlias rack\n",
	} {
		matching := "Match exec \"echo '" + tokens + "' >" + said + "\"\n"
		file := writeFile(t, settings+matching+" ControlPath \"/run/"+tokens+"\"\n")
		heard := func() string {
			t.Helper()
			text, err := os.ReadFile(said)
			noError(t, err)
			noError(t, os.Remove(said))
			return string(text)
		}
		out, err := exec.CommandContext(t.Context(), program, "-G", "-F", file, "kvm1").Output()
		noError(t, err)
		match := heard()
		so, err := Config{ConfigFile: file}.resolve(t.Context(), hop{host: "kvm1"}, false)
		noError(t, err)
		if ours := heard(); ours != match {
			t.Errorf("%s, while reading: got %q, and ssh %q", name, ours, match)
		}
		ours, err := so.expandFileName("/run/" + tokens)
		noError(t, err)
		if want := "\ncontrolpath " + ours + "\n"; !strings.Contains(string(out), want) {
			t.Errorf("%s: got %q, and ssh says:\n%s", name, want, out)
		}
	}
}

// TestSSHConfig_readsOnAfterAnApostrophe: a command is for a shell, which older versions of ssh left to judge it.
func TestSSHConfig_readsOnAfterAnApostrophe(t *testing.T) {
	t.Parallel()
	file := writeFile(t, "LocalCommand echo it's me\nPort 77\n")
	so, err := Config{ConfigFile: file}.resolve(t.Context(), hop{host: "kvm1"}, false)
	noError(t, err)
	if so.port != 77 {
		t.Errorf("got port %d, want 77", so.port)
	}
}

// switchValues are what ssh shows of switches.
var switchValues = map[string]string{"true": "yes", "yes": "yes", "false": "no", "no": "no"}

func TestSSHConfig_checksPermissions(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	dir := filepath.Join(home, ".ssh")
	noError(t, os.Mkdir(dir, 0o700))
	config, included := filepath.Join(dir, "config"), filepath.Join(dir, "more")
	noError(t, os.WriteFile(config, []byte("Include more\n"), 0o600))
	noError(t, os.WriteFile(included, []byte("Port 2222\n"), 0o600))
	resolve := func() error {
		_, err := Config{}.resolve(t.Context(), hop{host: "kvm1"}, false)
		return err
	}
	noError(t, resolve())
	for _, file := range []string{config, included} {
		noError(t, os.Chmod(file, 0o602))
		if err := resolve(); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), file) {
			t.Errorf("%s is writable for all: got %v", file, err)
		}
		noError(t, os.Chmod(file, 0o644))
	}
	noError(t, resolve())
	// As with ssh -F, a file that is named isn't checked.
	noError(t, os.Chmod(config, 0o666))
	_, err := Config{ConfigFile: config}.resolve(t.Context(), hop{host: "kvm1"}, false)
	noError(t, err)
}

func TestAuth_usesNoKeyThatOthersCanRead(t *testing.T) {
	t.Parallel()
	key := newKey(t, "ed25519")
	server := startSSHD(t, key.authorized())
	cfg := server.config(t, key)
	noError(t, os.Chmod(cfg.PrivateKeyFile, 0o640))
	_, err := newClient(t, cfg).DialUnix(t.Context(), "/run/any")
	if !errors.Is(err, ErrAuth) || !strings.Contains(err.Error(), "others may read the key (mode 0640)") {
		t.Errorf("got %v", err)
	}
}
