package hostmaintenance_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// managed is a VM of the configuration that costs nothing and needs no time to shut down.
func (p *pair) managed(t *testing.T, name, more string) string {
	t.Helper()
	p.l.RemoveDomain(t, p.prefix+"-"+name)
	return fmt.Sprintf(`resource "virtfleet_virtual_machine" %q {
  name                     = %q
  type                     = "qemu"
  termination_grace_period = "0s"
  %s
}
`, name, p.prefix+"-"+name, more)
}

// TestAccHostMaintenance_pinnedElsewhere: a VM that is to come to a host under maintenance stays where it is as long as
// that lasts, however often it is applied. The plan says why, and the apply that ends the maintenance moves it, once.
func TestAccHostMaintenance_pinnedElsewhere(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	on := func(host string) string {
		return p.managed(t, "pinned", fmt.Sprintf("memory = { size = \"32Mi\" }\n  host = %q", host))
	}
	closed := p.maintenance(`reason = "CHG-1234: new memory"`)
	p.tf.Config(t, p.block()+closed+on(p.to.Name))
	p.tf.Run(t, "apply")
	// moves is how often it was moved, or was begun to be, as is recorded with it.
	moves := func() int {
		t.Helper()
		return strings.Count(p.l.Virsh(t, p.where(t, "pinned"), "dumpxml", p.prefix+"-pinned"), "<virtfleet:migration ")
	}
	id := p.l.Virsh(t, p.to.Name, "domid", p.prefix+"-pinned")

	p.tf.Config(t, p.block()+closed+on(p.from.Name))
	out := unwrapped(p.tf.Run(t, "plan"))
	for _, want := range []string{
		"Warning: Virtual machine is pinned to a host under maintenance",
		fmt.Sprintf("%q is on host %q, its attribute host is %q", p.prefix+"-pinned", p.to.Name, p.from.Name),
		"CHG-1234: new memory", "Destroy the virtfleet_host_maintenance",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in the plan: %s", want, out)
		}
	}
	for range 2 {
		if out := p.tf.Fail(t, "apply"); !strings.Contains(out, "HostCordoned") || !strings.Contains(out, "CHG-1234") {
			t.Errorf("it isn't said why: %s", out)
		}
		p.expect(t, map[string]string{"pinned": p.to.Name})
		if now := p.l.Virsh(t, p.to.Name, "domid", p.prefix+"-pinned"); now != id || moves() != 0 {
			t.Errorf("domain %s is %s now, and was moved %d times", id, now, moves())
		}
	}

	// With the host switched off plans keep working.
	p.tf.Config(t, acctest.Block{Lab: p.l, Hosts: []acctest.Host{
		{Name: p.from.Name, URI: "qemu+ssh://root@" + p.from.Address + ":9/system"}, p.host(p.to),
	}}.String()+closed+on(p.from.Name))
	if out := p.tf.Run(t, "plan"); !strings.Contains(out, "Virtual machine is pinned to a host under maintenance") {
		t.Errorf("the plan with the host off: %s", out)
	}

	p.tf.Config(t, p.block()+on(p.from.Name))
	p.tf.Run(t, "apply")
	if got := p.howRuns(t, "pinned"); got != p.from.Name+" running (migrated)" || moves() != 1 {
		t.Errorf("it is %s, and was moved %d times", got, moves())
	}
	if out, empty := p.tf.Empty(t); !empty {
		t.Errorf("left to do:\n%s", out)
	}
	p.nothingLeft(t, "pinned")
	p.tf.Run(t, "destroy")
	p.expect(t, map[string]string{"pinned": ""})
}
