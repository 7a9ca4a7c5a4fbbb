package virtualmachine_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccBadInput_provider: a host that can't be reached as it is declared.
func TestAccBadInput_provider(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	h := l.Host("kvm2")
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	private, public := newKey(t)
	strange := file("strange", private)
	wrong := file("wrong_known_hosts", h.Address+" "+public)
	none := file("no_known_hosts", "")
	hosts := func(uri string) string { return fmt.Sprintf("hosts = { kvm2 = { uri = %q } }", uri) }
	sshBlock := func(settings string) string {
		return "ssh = { config_file = \"none\", agent = false, " + settings + " }"
	}
	knownAs := func(file string) string { return fmt.Sprintf("known_hosts_file = %q", file) }
	known := knownAs(l.KnownHostsFile())
	key := fmt.Sprintf("private_key_file = %q, ", l.PrivateKeyFile())

	for name, tt := range map[string]struct {
		command  string
		settings []string
		says     []string
	}{
		"scheme": {
			"validate",
			[]string{hosts("xen+ssh://kvm2/system")},
			[]string{`hosts.kvm2.uri is "xen\+ssh://kvm2/system": the driver "xen"`},
		},
		"transport": {
			"validate",
			[]string{hosts("qemu+ext://kvm2/system")},
			[]string{`hosts.kvm2.uri is .*: the transport "ext" is not supported`},
		},
		"uri and hosts": {
			"validate",
			[]string{hosts(h.URI()), fmt.Sprintf("uri = %q", h.URI())},
			[]string{`hosts.*uri|uri.*hosts`, `cannot be specified`},
		},
		"missing key file": {
			"plan",
			[]string{hosts(h.URI()), sshBlock(`private_key_file = "/nowhere/id", ` + known)},
			[]string{`\bssh.private_key_file:`, `/nowhere/id`, `no such file`},
		},
		"unknown host key": {
			"plan",
			[]string{hosts(h.URI()), sshBlock(key + knownAs(none))},
			[]string{`Host "kvm2" does not answer`, `no_known_hosts`, `accept_new`},
		},
		"wrong host key": {
			"plan",
			[]string{hosts(h.URI()), sshBlock(key + knownAs(wrong))},
			[]string{`Host "kvm2" does not answer`, `wrong_known_hosts`, `Compare the fingerprint`},
		},
		"wrong key": {
			"plan",
			[]string{hosts(h.URI()), sshBlock(fmt.Sprintf("private_key_file = %q, ", strange) + known)},
			[]string{`Host "kvm2" does not answer`, `strange`, `ssh -v`},
		},
		"wrong password": {
			"plan",
			[]string{hosts(h.URI()), sshBlock(`password = "hunter2", ` + known)},
			[]string{`Host "kvm2" does not answer`, `password`, `ssh -v`},
		},
		"no host answers": {
			"plan",
			[]string{hosts("qemu+ssh://root@" + h.Address + ":2299/system"), sshBlock(key + known)},
			[]string{`Host "kvm2" does not answer`, `refused`, `sshd`},
		},
		"wrong key for any host": {
			"plan",
			[]string{
				fmt.Sprintf("hosts = { kvm2 = { uri = %q }, kvm3 = { uri = %q } }", h.URI(), l.Host("kvm3").URI()),
				sshBlock(fmt.Sprintf("private_key_file = %q, ", strange) + known),
			},
			[]string{`kvm2`, `kvm3`, `strange`, `ssh -v`},
		},
		"no libvirt": {
			"plan",
			[]string{hosts(h.URI() + "?socket=/run/none.sock"), sshBlock(key + known)},
			[]string{`Host "kvm2" does not answer`, `/run/none.sock`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cli := acctest.NewCLI(t)
			vm := tinyVM("unreachable")
			if !strings.HasSuffix(name, "for any host") {
				vm = vm.with(hcl{"host": quote("kvm2")})
			}
			cli.Config(t, "provider \"virtfleet\" {\n  "+strings.Join(tt.settings, "\n  ")+"\n}\n"+vm.String())
			said, err := cli.Try(t, tt.command)
			if err == nil {
				t.Errorf("terraform %s went through", tt.command)
			}
			t.Log(said)
			for _, want := range tt.says {
				if !regexp.MustCompile(want).MatchString(said) {
					t.Errorf("it doesn't say %q", want)
				}
			}
			if n := strings.Count(said, "Error: "); n != 1 {
				t.Errorf("got %d errors, want one", n)
			}
			if strings.Contains(said, "hunter2") {
				t.Error("it repeats the password")
			}
		})
	}
}

// newKey makes a key that no host knows.
func newKey(t *testing.T) (private, public string) {
	t.Helper()
	pub, priv, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(priv, "")
	if err != nil {
		t.Fatal(err)
	}
	key, err := ssh.NewPublicKey(pub)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(block)), string(ssh.MarshalAuthorizedKey(key))
}
