package network_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccNetwork_bridgeInUse: a plan says that libvirt can't create the bridge of a network: it is one of the host, of
// another network, or of another network of the same plan. It says nothing of the network's own bridge.
func TestAccNetwork_bridgeInUse(t *testing.T) {
	t.Parallel()
	const title = "Bridge is in use"
	l := lab.Open(t)
	name := lab.Name(t)
	own, plain := "vi"+name[len(name)-6:], "vj"+name[len(name)-6:]
	l.Run(t, "kvm1", "ip", "link", "add", plain, "type", "bridge")
	t.Cleanup(func() {
		if _, err := l.Host("kvm1").Run(context.WithoutCancel(t.Context()), "ip", "link", "del", plain); err != nil {
			t.Error(err)
		}
	})
	c := acctest.NewCLI(t)
	network := func(key, bridge, more string) string {
		return fmt.Sprintf("resource \"virtfleet_network\" %[1]q {\n  name = \"%[2]s-%[1]s\"\n  bridge = %[3]q\n  %[4]s\n}\n",
			key, name, bridge, more)
	}
	config := func(networks ...string) {
		t.Helper()
		c.Config(t, acctest.OneHost(l)+strings.Join(networks, ""))
	}
	expect := func(when, out string, words ...string) {
		t.Helper()
		for _, word := range words {
			if !strings.Contains(out, word) {
				t.Errorf("%s: %q isn't in %s", when, word, out)
			}
		}
		if len(words) == 0 && strings.Contains(out, title) {
			t.Errorf("%s: %s", when, out)
		}
	}
	config(network("one", own, ""))
	expect("a new one", c.Run(t, "apply"))
	config(network("one", own, "mtu = 1400"), network("two", own, ""))
	expect("two of one plan", c.Fail(t, "plan"), title, "are both planned with the bridge \""+own+"\" on host \"kvm1\"")
	config(network("one", own, ""), network("two", plain, ""))
	expect("of the host", c.Fail(t, "apply"), title, "belongs to the host itself", "Unable to create network")
	config(network("one", own, ""), network("two", plain, `forward = { mode = "bridge" }`))
	expect("a network on the host's bridge", c.Run(t, "apply"))
	if out, empty := c.Empty(t); !empty {
		t.Error(out)
	}

	// Another configuration's network, whether it is active or not.
	other := acctest.NewCLI(t)
	other.Config(t, acctest.OneHost(l)+network("three", own, ""))
	expect("of another network", other.Fail(t, "apply"), title, "belongs to network "+name+"-one",
		"Unable to create network")
	l.Virsh(t, "kvm1", "net-destroy", name+"-one")
	expect("of an inactive network", other.Run(t, "plan"), title, "belongs to network "+name+"-one")
	expect("stopped by hand", c.Run(t, "apply"))
	config(network("one", own, "mtu = 1400"), network("two", plain, `forward = { mode = "bridge" }`))
	expect("changed", c.Run(t, "apply"))
	// From a bridge that libvirt creates to one of the host.
	config(network("one", plain, `forward = { mode = "bridge" }`), network("two", plain, `forward = { mode = "bridge" }`))
	expect("on the host's bridge", c.Run(t, "apply"))
	if xml := l.Virsh(t, "kvm1", "net-dumpxml", name+"-one"); !strings.Contains(xml, "<bridge name='"+plain+"'/>") {
		t.Error(xml)
	}
	if out, empty := c.Empty(t); !empty {
		t.Error(out)
	}
	destroyAndCheck(t, l, c, name)
}

// TestAccNetwork_natPorts: of the ports to translate to, the first or the last one is enough.
func TestAccNetwork_natPorts(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	c := acctest.NewCLI(t)
	for says, want := range map[string]string{
		"port_end = 3000": "<port start='1024' end='3000'/>", "port_start = 2000": "<port start='2000' end='65535'/>",
	} {
		c.Config(t, acctest.OneHost(l)+fmt.Sprintf(`
resource "virtfleet_network" "this" {
  name    = %q
  forward = { mode = "nat", nat = { %s } }
  ips     = [{ address = "10.213.24.1/24" }]
}
`, name, says))
		c.Run(t, "apply")
		for _, flags := range [][]string{nil, {"--inactive"}} {
			if xml := l.Virsh(t, "kvm1", append([]string{"net-dumpxml", name}, flags...)...); !strings.Contains(xml, want) {
				t.Errorf("%s: want %s in %s", says, want, xml)
			}
		}
		if out, empty := c.Empty(t); !empty {
			t.Errorf("%s: %s", says, out)
		}
	}
	destroyAndCheck(t, l, c, name)
}

// TestAccNetwork_refusedVLAN: a plan refuses a VLAN that libvirt can't give to interfaces. As a change of an active
// network, libvirt would accept it, and then start no VM.
func TestAccNetwork_refusedVLAN(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	c := acctest.NewCLI(t)
	declare := func(says string) {
		t.Helper()
		c.Config(t, acctest.OneHost(l)+fmt.Sprintf(
			"resource \"virtfleet_network\" \"this\" {\n  name = %q\n  forward = { mode = \"bridge\" }\n  %s\n}\n", name, says))
	}
	refused := func(says string, words ...string) {
		t.Helper()
		declare(says)
		out := c.Fail(t, "plan")
		for _, word := range append(words, "Invalid network", "libvirt 11.0.0; it has ", "kvm1",
			"virtual_port") {
			if !strings.Contains(out, word) {
				t.Errorf("%q isn't in %s", word, out)
			}
		}
	}
	const tagged = `port_groups = { prod = { default = true, vlan = { tags = [7] } } }`
	refused("bridge = \"lo\"\n"+tagged, "port_groups", `Port group "prod"`)
	declare("bridge = \"lo\"\nport_groups = { prod = { default = true } }")
	c.Run(t, "apply")
	refused("bridge = \"lo\"\n"+tagged, "port_groups", `Port group "prod"`)
	refused("bridge = \"lo\"\nport_groups = {}\nvlan = { tags = [7, 8] }", "vlan", `mode = "bridge"`)
	declare("bridge = \"lo\"\n" + `port_groups = { prod = {
    vlan = { tags = [7] }, virtual_port = { type = "openvswitch" }
  } }`)
	c.Run(t, "apply")
	if out, empty := c.Empty(t); !empty {
		t.Error(out)
	}
	for _, flags := range [][]string{nil, {"--inactive"}} {
		xml := l.Virsh(t, "kvm1", append([]string{"net-dumpxml", name}, flags...)...)
		if !strings.Contains(xml, "<tag id='7'/>") {
			t.Error(xml)
		}
	}
	destroyAndCheck(t, l, c, name)
}
