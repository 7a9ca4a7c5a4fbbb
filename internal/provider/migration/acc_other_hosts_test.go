package migration_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccMigration_toAHostOfOthers: a configuration that has fewer hosts than the one that moves its VM doesn't plan
// the VM a second time, nor does it forget it. Its plan names the host that the VM was moved to. Once the VM is back,
// or that host is in the configuration, there is nothing to do.
func TestAccMigration_toAHostOfOthers(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	for kind, strategy := range map[string]string{"live": "Always", "off": "Halted"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			name := lab.Name(t)
			team, platform := start(t, l, name), acctest.NewCLI(t)
			vm := light(name, fmt.Sprintf("run_strategy = %q\n  wait_for = {}", strategy))
			apply(t, team, acctest.OneHost(l)+vm)
			state, _ := team.State(t, machine)
			id, _ := state["id"].(string)
			to := func(host string) {
				t.Helper()
				platform.Config(t, provider(l, "")+strings.ReplaceAll(migration(fmt.Sprintf("target_host = %q", host)),
					machine+".id", fmt.Sprintf("%q", id)))
				platform.Run(t, "apply")
			}

			to("kvm2")
			for _, command := range [][]string{{"plan"}, {"destroy"}, {"destroy", "-refresh=false"}} {
				out := strings.Join(strings.Fields(strings.ReplaceAll(team.Fail(t, command...), "│", " ")), " ")
				for _, want := range []string{name, `moved from host "kvm1" to host "kvm2"`, "terraform state rm"} {
					if !strings.Contains(out, want) {
						t.Errorf("%v doesn't say %q: %s", command, want, out)
					}
				}
			}
			if now, _ := team.State(t, machine); now["id"] != id {
				t.Errorf("the VM is no longer in the state: %v", now)
			}
			team.Config(t, acctest.Config(l)+vm)
			if left, empty := team.Empty(t); !empty {
				t.Errorf("left to do with the host of the VM:\n%s", left)
			}

			// Under another name than that of the run that moved the VM, a fenced host is its host all the same.
			renamed := func(settings string) string {
				return acctest.Block{Lab: l, Hosts: []acctest.Host{
					{Of: l.Host("kvm1")}, {Name: "elsewhere", Of: l.Host("kvm2"), Settings: settings},
				}}.String() + vm
			}
			apply(t, team, renamed(""))
			team.Config(t, renamed("fenced = true"))
			plan, want := team.Run, "Plan: 1 to add"
			if kind == "live" { // The host isn't off.
				plan, want = team.Fail, "runs on a fenced host"
			}
			if out := plan(t, "plan"); !strings.Contains(out, want) {
				t.Errorf("the plan with the fenced host of the VM doesn't say %q:\n%s", want, out)
			}
			team.Config(t, renamed(""))

			to("kvm1")
			team.Run(t, "apply", "-refresh-only")
			team.Config(t, acctest.OneHost(l)+vm)
			if left, empty := team.Empty(t); !empty {
				t.Errorf("left to do with the VM that is back:\n%s", left)
			}
			if notes := l.Virsh(t, "kvm1", "secret-list"); strings.Contains(notes, "virtfleet:moved:"+id) {
				t.Errorf("the host that has the VM says that it was moved away:\n%s", notes)
			}
			team.Config(t, acctest.Config(l)+vm)
			team.Run(t, "destroy")
			for _, host := range []string{"kvm1", "kvm2"} {
				if notes := l.Virsh(t, host, "secret-list"); strings.Contains(notes, id) {
					t.Errorf("left on %s of the destroyed VM:\n%s", host, notes)
				}
			}
		})
	}
}
