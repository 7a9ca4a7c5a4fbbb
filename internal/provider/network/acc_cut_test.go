package network_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccNetwork_cut: the connection to a host breaks right after a call has changed the network there, so the answer
// is lost. A network that was stopped to be restarted is started in the same apply. One that was only defined is shown
// as inactive by the next plan, and started by the next apply.
func TestAccNetwork_cut(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	bridge := "vc" + name[len(name)-6:]
	gate := l.DelayProxy(t, "kvm2", 0)
	config := func(mtu int, active bool) string {
		return acctest.Block{Lab: l, Hosts: []acctest.Host{{Of: l.Host("kvm1")}, {
			Of: l.Host("kvm2"), URI: gate.URI(), Settings: fmt.Sprintf("ssh = { known_hosts_file = %q }", gate.KnownHostsFile),
		}}}.String() + fmt.Sprintf(`
resource "virtfleet_network" "this" {
  name    = %q
  bridge  = %q
  forward = { mode = "isolated" }
  mtu     = %d
  active  = %t
}
`, name, bridge, mtu, active)
	}
	there := func(file string) func() bool {
		return func() bool {
			_, err := os.Stat(l.Host("kvm2").Path(file + name + ".xml"))
			return err == nil
		}
	}
	isActive := there("/run/libvirt/network/")
	// has says of both hosts whether the network is active, with this MTU. The kernel is asked, too.
	has := func(when string, mtu int, active bool) {
		t.Helper()
		for _, host := range []string{"kvm1", "kvm2"} {
			is := l.Run(t, host, "sh", "-c", "cat /sys/class/net/"+bridge+"/mtu || true")
			defined := l.Virsh(t, host, "net-dumpxml", "--inactive", name)
			if runs := strings.TrimSpace(is) == fmt.Sprint(mtu); runs != active ||
				!strings.Contains(defined, fmt.Sprintf("<mtu size='%d'/>", mtu)) {
				t.Errorf("%s: on %s the MTU is %q; it is defined as %s", when, host, is, defined)
			}
		}
	}
	c := acctest.NewCLI(t)
	cut := func(when string, at func() bool) string {
		t.Helper()
		gate.CutAt(at)
		out := c.Run(t, "apply")
		if !gate.HasCut() {
			t.Fatalf("%s: the connection was never cut", when)
		}
		return out
	}

	c.Config(t, config(1400, true))
	if out := cut("a create", there("/etc/libvirt/qemu/networks/")); !strings.Contains(out, "Unable to create network") {
		t.Errorf("the create doesn't say that it failed on a host: %s", out)
	}
	plan := c.Plan(t)[address]
	state := fmt.Sprint(acctest.ValueAt(plan.Before, "host_states.kvm2"))
	if plan.Actions != "update" || !strings.HasPrefix(state, "inactive") {
		t.Errorf("after the create, the plan is to %s what was %s", plan.Actions, state)
	}
	c.Run(t, "apply")
	has("created", 1400, true)

	for _, change := range []struct {
		what   string
		mtu    int
		active bool
		at     func() bool
	}{
		{"restarted", 1300, true, func() bool { return !isActive() }},
		{"stopped", 1300, false, func() bool { return !isActive() }},
		{"started", 1300, true, isActive},
	} {
		c.Config(t, config(change.mtu, change.active))
		cut(change.what, change.at)
		has(change.what, change.mtu, change.active)
		if out, empty := c.Empty(t); !empty {
			t.Errorf("%s: left to do after that apply: %s", change.what, out)
		}
	}
	c.Run(t, "destroy")
	for _, host := range []string{"kvm1", "kvm2"} {
		if l.Has(t, host, "net-list", name) {
			t.Errorf("host %s still has it", host)
		}
	}
}
