package network_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccNetwork_byHand: a network that another tool restarted with another definition is restarted as declared; one
// that only runs with another definition, too; one that is only defined with another isn't. One that was destroyed is
// started, or created again. What the host's kernel and the network's DNS server have is what counts.
func TestAccNetwork_byHand(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	bridge := "vh" + name[len(name)-6:]
	c := acctest.NewCLI(t)
	c.Config(t, acctest.OneHost(l)+fmt.Sprintf(`
resource "virtfleet_network" "this" {
  name      = %q
  bridge    = %q
  autostart = true
  mtu       = 1400
  domain    = { name = "hand.test", local_only = true }
  dns       = { hosts = [{ ip = "10.220.1.1", names = ["gw.hand.test"] }] }
  ips       = [{ address = "10.220.1.1/24", dhcp = { ranges = [{ start = "10.220.1.100", end = "10.220.1.199" }] } }]
}
`, name, bridge))
	c.Run(t, "apply")
	declared := l.Virsh(t, "kvm1", "net-dumpxml", "--inactive", name)
	// serves says whether the kernel has the bridge as it is declared, and the server answers there.
	serves := func() bool {
		t.Helper()
		said := l.Run(t, "kvm1", "sh", "-c", fmt.Sprintf(
			"ip -o address show %[1]s; cat /sys/class/net/%[1]s/mtu; busybox nslookup -type=a gw.hand.test 10.220.1.1; true",
			bridge))
		for _, want := range []string{"10.220.1.1/24", "\n1400\n", "Name:\tgw.hand.test"} {
			if !strings.Contains(said, want) {
				return false
			}
		}
		return true
	}
	lab.Await(t, "the new network's server", serves)

	other := strings.NewReplacer("10.220.1.", "10.220.2.", "1400", "1300").Replace(declared)
	define := func(xml string) string {
		file := "/run/" + name + ".xml"
		return "cat >" + file + " <<'X'\n" + xml + "\nX\nvirsh -q net-define " + file + "\nrm " + file + "\n"
	}
	restart := "virsh -q net-destroy " + name + "\nvirsh -q net-start " + name + "\n"
	number := func() string { return l.Run(t, "kvm1", "cat", "/sys/class/net/"+bridge+"/ifindex") }
	const differs = "active, differs in dns, ips, mtu 1300"
	for _, by := range []struct {
		what, hand string
		had        string // the state of the host and the MTU that the plan shows, "" where the network isn't there
		runs       bool   // it isn't restarted
	}{
		{"restarted with another definition", define(other) + restart, "active 1300", false},
		{"running with another definition", define(other) + restart + define(declared), differs, false},
		{"defined, but not restarted", define(other), differs, true},
		{"destroyed", "virsh -q net-destroy " + name, "inactive 1400", false},
		{"undefined", "virsh -q net-destroy " + name + "\nvirsh -q net-undefine " + name, "", false},
		{"without autostart", "virsh -q net-autostart --disable " + name, "active 1400", true},
	} {
		what := by.what
		before := number()
		l.Run(t, "kvm1", "sh", "-ec", by.hand)
		plan := c.Plan(t)[address]
		action, had := "create", ""
		if by.had != "" {
			action = "update"
		}
		if plan.Before != nil {
			had = fmt.Sprint(acctest.ValueAt(plan.Before, "host_states.kvm1"), " ", plan.Before["mtu"])
		}
		if plan.Actions != action || had != by.had {
			t.Errorf("%s: the plan is to %s what was %q", what, plan.Actions, had)
		}
		c.Run(t, "apply")
		if out, empty := c.Empty(t); !empty {
			t.Errorf("%s: after the apply: %s", what, out)
		}
		lab.Await(t, what+": the repaired network's server", serves)
		if info := l.Virsh(t, "kvm1", "net-info", name); strings.Count(strings.ReplaceAll(info, " ", ""), ":yes") != 3 {
			t.Errorf("%s: it should be active, persistent and start with the host: %s", what, info)
		}
		if now := l.Virsh(t, "kvm1", "net-dumpxml", "--inactive", name); strings.Contains(now, "10.220.2.") {
			t.Errorf("%s: it is still defined so: %s", what, now)
		}
		if kept := number() == before; kept != by.runs {
			t.Errorf("%s: is its bridge the one that it had? %v", what, kept)
		}
	}
	c.Run(t, "destroy")
	if l.Has(t, "kvm1", "net-list", name) {
		t.Error("it is still there")
	}
}
