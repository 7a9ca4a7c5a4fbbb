package networkdhcphost_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// existsAlready is the title of the warning that a new resource takes over what hosts have.
const existsAlready = "Object exists already"

// TestAccNetworkDHCPHost_exists: a plan warns if a new resource takes over a reservation that hosts have: that of
// another configuration, or what an apply has left that was killed before it saved its state. It doesn't warn of what
// its own configuration replaces or renames.
func TestAccNetworkDHCPHost_exists(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	const mac = "52:54:00:07:06:01"
	network := acctest.OneHost(l) + fmt.Sprintf(`
resource "virtfleet_network" "this" {
  name   = %q
  bridge = "ve%s"
  ips    = [{ address = "10.213.16.1/24", dhcp = {} }]
}
`, name, name[len(name)-6:])
	reservation := func(key, more string) string {
		return fmt.Sprintf("resource \"virtfleet_network_dhcp_host\" %q {\n  network = %q\n  mac = %q\n"+
			"  ip = \"10.213.16.50\"\n  name = \"web\"\n  %s\n}\n", key, name, mac, more)
	}
	// has says whether both definitions of the network have the reservation, once.
	has := func(when string, want int) {
		t.Helper()
		for _, flags := range [][]string{nil, {"--inactive"}} {
			xml := l.Virsh(t, "kvm1", append([]string{"net-dumpxml", name}, flags...)...)
			if n := strings.Count(xml, "<host mac='"+mac+"' name='web' ip='10.213.16.50'/>"); n != want {
				t.Errorf("%s: %d of %d in %s", when, n, want, xml)
			}
		}
	}
	warns := func(when, out string, want bool) {
		t.Helper()
		if strings.Contains(out, existsAlready) != want ||
			want && !strings.Contains(out, "Network \""+name+"\" has this reservation on these hosts already: kvm1 ("+
				"10.213.16.50, mac \""+mac+"\", name \"web\")") {
			t.Errorf("%s: want the warning: %t: %s", when, want, out)
		}
	}
	one, other := acctest.NewCLI(t), acctest.NewCLI(t)
	one.Config(t, network)
	one.Run(t, "apply")
	one.Config(t, network+reservation("web", ""))
	warns("a new one", one.Run(t, "apply"), false)

	// Another configuration.
	other.Config(t, acctest.OneHost(l)+reservation("web", ""))
	warns("of another configuration", other.Run(t, "plan"), true)
	other.Config(t, network+reservation("web", "depends_on = [virtfleet_network.this]"))
	warns("of another configuration, with a network that it has", other.Run(t, "plan"), true)
	other.Config(t, acctest.OneHost(l)+reservation("web", ""))
	warns("imported", other.Run(t, "import", "virtfleet_network_dhcp_host.web", name+"/"+mac), false)
	if out, empty := other.Empty(t); !empty {
		t.Errorf("imported: %s", out)
	}
	other.Run(t, "state", "rm", "virtfleet_network_dhcp_host.web")
	has("not taken over", 1)

	// Its own: renamed without a moved block, and replaced.
	one.Config(t, network+reservation("renamed", ""))
	warns("renamed", one.Run(t, "plan"), false)
	one.Config(t, network+reservation("web", "lifecycle { create_before_destroy = true }"))
	warns("replaced", one.Run(t, "plan", "-replace=virtfleet_network_dhcp_host.web"), false)
	one.Run(t, "apply", "-replace=virtfleet_network_dhcp_host.web")
	has("replaced", 1)

	// The state of an apply that was killed lacks it, and the next apply converges.
	one.Run(t, "state", "rm", "virtfleet_network_dhcp_host.web")
	warns("lost by the state", one.Run(t, "apply"), true)
	has("taken over", 1)
	if out, empty := one.Empty(t); !empty {
		t.Errorf("taken over: %s", out)
	}

	// A network that lists its reservations removes the others, in whatever order both are planned.
	lists := strings.Replace(network, "dhcp = {}", "dhcp = { hosts = [{ mac = \"52:54:00:07:06:02\", "+
		"ip = \"10.213.16.51\" }] }", 1)
	for _, config := range []string{
		lists + reservation("web", "depends_on = [virtfleet_network.this]"),
		strings.Replace(lists, "bridge", "depends_on = [virtfleet_network_dhcp_host.web]\n  bridge", 1) +
			reservation("web", ""),
	} {
		one.Config(t, config)
		if out := one.Fail(t, "plan"); !strings.Contains(out, "removes this reservation") {
			t.Errorf("a network that lists others: %s", out)
		}
	}
	one.Config(t, network)
	one.Run(t, "apply")
	has("destroyed", 0)
	one.Run(t, "destroy")
	if l.Has(t, "kvm1", "net-list", name) {
		t.Error("the network is still there")
	}
}

// TestAccNetworkDHCPHost_replacedFirst: a reservation for another MAC address can't have the address of the one that it
// replaces while that is there. With create_before_destroy the apply fails, changes nothing, and says which setting is
// the cause. Without it, the address passes to the other MAC address.
func TestAccNetworkDHCPHost_replacedFirst(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	const before, after = "52:54:00:07:07:01", "52:54:00:07:07:02"
	c := acctest.NewCLI(t)
	config := func(mac, lifecycle string) {
		t.Helper()
		c.Config(t, acctest.OneHost(l)+fmt.Sprintf(`
resource "virtfleet_network" "this" {
  name   = %q
  bridge = "vf%s"
  ips    = [{ address = "10.213.20.1/24", dhcp = {} }]
}
resource "virtfleet_network_dhcp_host" "web" {
  network = virtfleet_network.this.name
  mac     = %q
  ip      = "10.213.20.50"
  name    = "web"
  %s
}
`, name, name[len(name)-6:], mac, lifecycle))
	}
	has := func(when, mac string) {
		t.Helper()
		xml := l.Virsh(t, "kvm1", "net-dumpxml", name)
		if want := "<host mac='" + mac + "' name='web' ip='10.213.20.50'/>"; strings.Count(xml, "<host mac=") != 1 ||
			!strings.Contains(xml, want) {
			t.Errorf("%s: want %s in %s", when, want, xml)
		}
	}
	const first = "lifecycle { create_before_destroy = true }"
	config(before, first)
	c.Run(t, "apply")
	config(after, first)
	out := c.Fail(t, "apply")
	for _, word := range []string{
		"already exists", before, "remove create_before_destroy from the lifecycle",
		"but as another resource, apply again",
	} {
		if !strings.Contains(out, word) {
			t.Errorf("%q isn't in %s", word, out)
		}
	}
	has("refused", before)
	config(before, first)
	if out, empty := c.Empty(t); !empty {
		t.Errorf("refused: %s", out)
	}
	config(after, "")
	c.Run(t, "apply")
	has("replaced", after)
	if out, empty := c.Empty(t); !empty {
		t.Errorf("replaced: %s", out)
	}
	c.Run(t, "destroy")
	if l.Has(t, "kvm1", "net-list", name) {
		t.Error("the network is still there")
	}
}
