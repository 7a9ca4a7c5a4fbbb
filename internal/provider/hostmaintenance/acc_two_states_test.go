package hostmaintenance_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccHostMaintenance_twoStates: of two states with a maintenance of the same host, and a policy of the same name,
// the second is told in its plan, is refused by its apply, and ends nothing when it is destroyed. The first one's goes
// on: once VMs that are off are to leave as well, they do. It is the host's under any name that the provider gives it.
func TestAccHostMaintenance_twoStates(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	other := acctest.NewCLI(t)
	p.l.RemoveDomain(t, p.prefix+"-off")
	p.l.Define(t, p.from.Name, fmt.Sprintf(`<domain type="qemu"><name>%s-off</name><memory unit="MiB">32</memory>
		<os><type arch="x86_64">hvm</type></os></domain>`, p.prefix))
	p.l.Virsh(t, p.from.Name, "autostart", p.prefix+"-off")
	policy := fmt.Sprintf(`resource "virtfleet_eviction_policy" "off" {
  name     = %[1]q
  selector = { names = ["%[1]s-off"] }
  strategy = "LiveMigrate"
}
`, p.prefix)
	config := p.block() + policy + p.maintenance("")
	p.tf.Config(t, config)
	if out := unwrapped(p.tf.Run(t, "apply")); !strings.Contains(out, "starts when the host boots") {
		t.Errorf("it isn't said that the VM that stays starts with the host: %s", out)
	}
	if got := results(t, p.tf); got != "off=Left" {
		t.Errorf("results %s", got)
	}
	state, _ := p.tf.State(t, address)
	if id := fmt.Sprint(state["id"]); id == p.from.Name || !strings.Contains(p.record(t), id) {
		t.Errorf("the mark doesn't carry the id %s: %s", id, p.record(t))
	}

	from, to := p.host(p.from), p.host(p.to)
	from.Name, to.Name = p.to.Name, p.from.Name
	exchanged := func(settings string) string {
		return acctest.Block{Lab: p.l, Hosts: []acctest.Host{from, to}}.String() + policy + strings.ReplaceAll(
			p.maintenance(settings), fmt.Sprintf("%q", p.from.Name), fmt.Sprintf("%q", p.to.Name))
	}
	p.tf.Config(t, exchanged(""))
	if out, empty := p.tf.Empty(t); !empty {
		t.Errorf("the hosts' names were exchanged, and the maintenance isn't found:\n%s", out)
	}
	// The host of the state's name answers now, and is another one. The one under maintenance is switched off.
	from.URI = "qemu+ssh://root@" + p.from.Address + ":9/system"
	p.tf.Config(t, acctest.Block{Lab: p.l, Hosts: []acctest.Host{from, to}}.String()+policy+p.maintenance(""))
	if out, empty := p.tf.Empty(t); !empty || !strings.Contains(unwrapped(out), "can't be read: "+from.Name) {
		t.Errorf("the hosts' names were exchanged, and the host under maintenance is off:\n%s", out)
	}
	from.URI = ""
	p.tf.Config(t, config)

	other.Config(t, strings.ReplaceAll(config, `"LiveMigrate"`, `"None"`))
	out := unwrapped(other.Run(t, "plan"))
	for _, want := range []string{
		"Host is under another maintenance", "Another policy has this name", "Another maintenance has drained host",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in the plan of another state: %s", want, out)
		}
	}
	if out := other.Fail(t, "apply"); !strings.Contains(out, "import it") {
		t.Errorf("it isn't said what to do: %s", out)
	}
	other.Run(t, "destroy")
	if out, empty := p.tf.Empty(t); !empty {
		t.Errorf("what the other one did shows up here:\n%s", out)
	}

	p.tf.Config(t, p.block()+policy+p.maintenance("move_stopped = true\n  restore = true"))
	if actions := p.tf.Actions(t); actions[address] != "update" {
		t.Errorf("VMs that are off are to leave, too: %v", actions)
	}
	p.tf.Run(t, "apply")
	if got := results(t, p.tf); got != "off=ColdMoved" {
		t.Errorf("results %s", got)
	}
	if out := p.l.Virsh(t, p.to.Name, "list", "--all", "--name"); !strings.Contains(out, p.prefix+"-off") {
		t.Errorf("it didn't leave: %s", out)
	}
	if out, empty := p.tf.Empty(t); !empty {
		t.Errorf("left to do:\n%s", out)
	}
	// It comes back from the host that it was moved to, whatever that one's name is by now.
	p.tf.Config(t, exchanged("restore = true"))
	p.tf.Run(t, "destroy")
	if out := p.l.Virsh(t, p.from.Name, "list", "--all", "--name"); !strings.Contains(out, p.prefix+"-off") {
		t.Errorf("it didn't come back: %s", out)
	}
	for _, h := range []string{p.from.Name, p.to.Name} {
		if out := p.l.Secrets(t, h); strings.Contains(out, "virtfleet:") {
			t.Errorf("left on host %s: %s", h, out)
		}
	}
}
