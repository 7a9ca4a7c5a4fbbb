package provider_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccProvider_withoutForwarding: where the SSH server forwards to no socket, libvirt is reached by its own helper,
// and by netcat where there is none.
func TestAccProvider_withoutForwarding(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	h := l.StartHost(t)
	const dir, served = "/var/lib/libvirt/programs", "/run/served"
	config, err := os.ReadFile(h.Path("/etc/ssh/sshd_config"))
	if err != nil {
		t.Fatal(err)
	}
	read := func(programs []string, want, not string) resource.TestStep {
		return resource.TestStep{
			PreConfig: func() {
				// What sshd starts finds nothing but these, and each says how it was called before it does its work.
				for _, name := range append(programs, "sh", "grep") {
					script := fmt.Sprintf("#!/bin/sh\necho \"%s $*\" >>%s\nexec /usr/bin/%s \"$@\"\n", name, served, name)
					writeProgram(t, h.Path(filepath.Join(dir, want, name)), script)
				}
				more := fmt.Sprintf("AllowStreamLocalForwarding no\nSetEnv PATH=%s\n", filepath.Join(dir, want))
				if err := os.WriteFile(h.Path("/etc/ssh/sshd_config"), append(config, more...), 0o600); err != nil {
					t.Fatal(err)
				}
				l.StopSSH(t, h)()
				l.Run(t, h.Name, "rm", "-f", served)
			},
			Config: acctest.Block{Lab: l, Hosts: []acctest.Host{{Of: h}}}.String() +
				fmt.Sprintf("data \"virtfleet_host\" \"this\" { name = %q }\n", h.Name),
			ConfigStateChecks: []statecheck.StateCheck{statecheck.ExpectKnownValue("data.virtfleet_host.this",
				tfjsonpath.New("uuid"), knownvalue.StringExact(h.HostUUID))},
			Check: func(*terraform.State) error {
				calls := "\n" + l.Run(t, h.Name, "cat", served)
				if !strings.Contains(calls, "\n"+want+" ") || strings.Contains(calls, "\n"+not+" ") {
					return fmt.Errorf("not reached by %s alone:%s", want, calls)
				}
				return nil
			},
		}
	}
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: acctest.Factories(t),
		Steps: []resource.TestStep{
			read([]string{"virt-ssh-helper", "nc"}, "virt-ssh-helper", "nc"),
			read([]string{"nc"}, "nc", "virt-ssh-helper"),
		},
	})
}

func writeProgram(t *testing.T, file, script string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(script), 0o755); err != nil { //nolint:gosec // sshd's user runs it.
		t.Fatal(err)
	}
}
