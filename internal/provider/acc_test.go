package provider_test

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

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"
	xssh "golang.org/x/crypto/ssh"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// readHost reads kvm1, which needs everything that the ssh block says.
const readHost = "\ndata \"virtfleet_host\" \"this\" { name = \"kvm1\" }\n"

// oneHost is a provider block with kvm1 and an ssh block.
func oneHost(l *lab.Lab, ssh string) string {
	return fmt.Sprintf("provider \"virtfleet\" {\n  hosts = { kvm1 = { uri = %q } }\n  ssh = {\n"+
		"    agent = false\n    config_file = \"none\"\n%s\n  }\n}\n%s", l.Host("kvm1").URI(), ssh, readHost)
}

func isKvm1(l *lab.Lab) []statecheck.StateCheck {
	return []statecheck.StateCheck{statecheck.ExpectKnownValue("data.virtfleet_host.this", tfjsonpath.New("uuid"),
		knownvalue.StringExact(l.Host("kvm1").HostUUID))}
}

// spaced matches words however Terraform broke the lines between them.
func spaced(words string) string {
	fields := strings.Fields(words)
	for i, f := range fields {
		fields[i] = regexp.QuoteMeta(f)
	}
	return strings.Join(fields, `[\s│]+`)
}

// shown matches texts in this order in what Terraform shows.
func shown(texts ...string) *regexp.Regexp {
	for i, text := range texts {
		texts[i] = spaced(text)
	}
	return regexp.MustCompile(`(?s)` + strings.Join(texts, `.*`))
}

func newKey(t *testing.T) string {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := xssh.MarshalPrivateKey(key, "")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "id_ed25519")
	if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestAccProvider_sshErrorsSayWhatToDo(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	wrongKey, noKeys := newKey(t), filepath.Join(t.TempDir(), "known_hosts")
	if err := os.WriteFile(noKeys, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: acctest.Factories(t),
		Steps: []resource.TestStep{{
			Config: oneHost(l, fmt.Sprintf("private_key_file = %q\n known_hosts_file = %q", wrongKey, l.KnownHostsFile())),
			ExpectError: shown(`Unable to read host`, `Host "kvm1" does not answer.`, `no credential was accepted`, wrongKey,
				`Host: kvm1`, `Check the user in the host's URI and the keys`),
		}, {
			Config: oneHost(l, fmt.Sprintf("private_key_file = %q\n known_hosts_file = %q", l.PrivateKeyFile(), noKeys)),
			ExpectError: shown(`Unable to read host`, `no host key is known for`, noKeys, `Host: kvm1`,
				`host_key_checking = "accept_new"`),
		}},
	})
}

func TestAccProvider_acceptNewRecordsTheKey(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	known := filepath.Join(t.TempDir(), "known_hosts")
	ssh := fmt.Sprintf("private_key_file = %q\n known_hosts_file = %q\n", l.PrivateKeyFile(), known)
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: acctest.Factories(t),
		Steps: []resource.TestStep{{
			Config:            oneHost(l, ssh+`host_key_checking = "accept_new"`),
			ConfigStateChecks: isKvm1(l),
		}, {
			// What was recorded satisfies the strict check.
			Config:            oneHost(l, ssh+`host_key_checking = "strict"`),
			ConfigStateChecks: isKvm1(l),
		}},
	})
}

func TestAccProvider_keyAsValueAndJumpHost(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	key, err := os.ReadFile(l.PrivateKeyFile())
	if err != nil {
		t.Fatal(err)
	}
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: acctest.Factories(t),
		Steps: []resource.TestStep{{
			Config: oneHost(l, fmt.Sprintf("private_key = <<-EOT\n%s\nEOT\n known_hosts_file = %q",
				strings.TrimSpace(string(key)), l.KnownHostsFile())),
			ConfigStateChecks: isKvm1(l),
		}, {
			Config: oneHost(l, fmt.Sprintf("private_key_file = %q\n known_hosts_file = %q\n jump_hosts = [%q]",
				l.PrivateKeyFile(), l.KnownHostsFile(), "root@"+l.Host("kvm2").Address)),
			ConfigStateChecks: isKvm1(l),
		}},
	})
}

// TestAccProvider_uriParameters proves that libvirt's own parameters do without an ssh block.
func TestAccProvider_uriParameters(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: acctest.Factories(t),
		Steps: []resource.TestStep{{
			Config: fmt.Sprintf("provider \"virtfleet\" {\n hosts = { kvm1 = { uri = %q } }\n}\n",
				fmt.Sprintf("%s?keyfile=%s&known_hosts=%s&known_hosts_verify=normal&socket=/run/libvirt/libvirt-sock",
					l.Host("kvm1").URI(), l.PrivateKeyFile(), l.KnownHostsFile())) + readHost,
			ConfigStateChecks: isKvm1(l),
		}},
	})
}

// TestProvider_unknownURIAsksNoHost proves with Terraform itself that a URI which isn't known at plan time is an error
// for what has to be read, and not a question to another host.
func TestProvider_unknownURIAsksNoHost(t *testing.T) {
	t.Parallel()
	acctest.NeedsTerraform(t)
	resource.UnitTest(t, resource.TestCase{
		ProtoV6ProviderFactories: acctest.Factories(t),
		Steps: []resource.TestStep{{
			Config: `resource "terraform_data" "uri" { input = "test:///default" }
				provider "virtfleet" { uri = terraform_data.uri.output }
				data "virtfleet_hosts" "this" {}`,
			ExpectError: shown(`Unable to read hosts`, `The provider's configuration depends on values that are not known `+
				`before apply: uri.`, `-target`),
		}},
	})
}
