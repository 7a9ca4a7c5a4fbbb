package virtualmachine_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccInterface_running: what is set of the interfaces of a running guest is what the guest and the host's bridge
// have; what can be changed while it runs is; and what the host can't do is refused in the plan.
func TestAccInterface_running(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	const host, bridge = "kvm1", "vf-test0"
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	l.Run(t, host, "sh", "-c", "ip link add "+bridge+" type bridge; ip link set "+bridge+" up")

	tf := acctest.NewCLI(t)
	process := &started{l: l, host: host, name: name}
	interfaces := func(lan, tap string) hcl {
		return hcl{"interfaces": fmt.Sprintf(`{
    lan = { bridge = %q, mtu = 1400, queues = 2, driver = { rx_queue_size = 512, name = "qemu" }, %s }
    tap = { direct = { device = "eth0", mode = "bridge" }, %s }
  }`, bridge, lan, tap)}
	}
	config := guest(l, name).with(talking).with(hcl{"host": quote(host), "cpu": `{ cores = 2 }`})
	apply := func(change hcl, is func(*testing.T) resource.TestCheckFunc) {
		t.Helper()
		config = config.with(change)
		tf.Config(t, acctest.Config(l)+config.String())
		tf.Run(t, "apply")
		if err := is(t)(nil); err != nil {
			t.Error(err)
		}
		noChanges(t, tf)
	}
	refused := func(change hcl, texts ...string) {
		t.Helper()
		tf.Config(t, acctest.Config(l)+config.with(change).String())
		expect(t, tf.Fail(t, "plan"), texts...)
	}
	port := func(want string) {
		t.Helper()
		links := l.Run(t, host, "bridge", "-d", "link", "show")
		if !strings.Contains(linesOf(links, "master "+bridge), want) {
			t.Errorf("the port of the bridge isn't %q:\n%s", want, links)
		}
	}

	apply(interfaces("isolated = true", `model = "virtio"`), process.same)
	if err := look(t, l, host, name, `<mtu size='1400'/>`, `queues='2'`, `rx_queue_size='512'`, `<port isolated='yes'/>`,
		`<source dev='eth0' mode='bridge'/>`)(nil); err != nil {
		t.Error(err)
	}
	port("isolated on")
	port("mtu 1400")
	got := said(t, l, host, name,
		`cd /sys/class/net; for i in *; do echo $(cat $i/mtu) $(ls $i/queues | grep -c rx-); done`)
	if !strings.Contains(got, "1400 2") || !strings.Contains(got, "1500 1") {
		t.Errorf("the guest has interfaces with MTU and queues %q", got)
	}
	if taps := l.Run(t, host, "ip", "-d", "link", "show", "type", "macvtap"); !strings.Contains(taps, "mode bridge") {
		t.Errorf("the host has no macvtap device:\n%s", taps)
	}

	// A running guest's port is set, its MTU and its queues aren't.
	apply(interfaces("isolated = false", `link_up = false`), process.same)
	port("isolated off")
	refused(hcl{"interfaces": strings.Replace(config["interfaces"], "1400", "1300", 1)},
		"Change needs a restart", "interfaces.lan.mtu: The guest's network card is made with it")

	// What this host can't do.
	for lan, says := range map[string]string{
		`bridge = "vf-test0", vlan = { tags = [42] }`:        "VLAN tags of an interface with bridge need libvirt 11.0.0",
		`bridge = "vf-test0", filter = { name = "no-such" }`: `it has no network filter "no-such"`,
		`direct = { device = "nonsense0", mode = "bridge" }`: `it has no network device "nonsense0"`,
	} {
		refused(hcl{"interfaces": "{ lan = { " + lan + " } }", "update_policy": quote("Restart")}, "lan", host, says)
	}
	refused(hcl{ // Debian 12 has built its libvirt without passt.
		"interfaces": `{ lan = { user = true, backend = { type = "passt" } } }`, "update_policy": quote("Restart"),
	}, host, "its libvirt refuses this definition", "passt")
	tf.Config(t, acctest.Config(l)+config.String())
	gone(t, l, tf, name)
	l.Run(t, host, "ip", "link", "del", bridge)
}

// TestAccInterface_defined: devices of the host that the lab lacks are defined, changed and imported, and stay as they
// are.
func TestAccInterface_defined(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	const host = "kvm1"
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	tf := acctest.NewCLI(t)
	config := sound(name).with(hcl{
		"host": quote(host), "run_strategy": quote("Halted"),
		"memory": `{ size = "64Mi", source = "memfd", shared = true }`,
		"interfaces": `{
    backup = { network = "default", mac = "52:54:00:aa:bb:01", teaming = { type = "persistent" } }
    fast   = {
      hostdev = "0000:03:00.1", mac = "52:54:00:aa:bb:01", vlan = { tags = [7] }
      teaming = { type = "transient", persistent = "backup" }
    }
    switch = {
      vhostuser = { path = "/run/switch.sock", mode = "client" }, queues = 2, driver = { tx_queue_size = 512 }
    }
    vdpa   = { vdpa = "/dev/vhost-vdpa-0", driver = { packed = true } }
  }`,
	})
	apply := func(change hcl, parts ...string) {
		t.Helper()
		config = config.with(change)
		tf.Config(t, acctest.Config(l)+config.String())
		tf.Run(t, "apply")
		if err := contains(l.Virsh(t, host, "dumpxml", "--inactive", name), parts...); err != nil {
			t.Error(err)
		}
		noChanges(t, tf)
	}
	apply(nil, `<interface type='hostdev' managed='yes'>`, `<address type='pci' domain='0x0000' bus='0x03' slot='0x00'`,
		`<teaming type='transient' persistent='ua-net-backup'/>`, `<teaming type='persistent'/>`, `<tag id='7'/>`,
		`<source type='unix' path='/run/switch.sock' mode='client'/>`, `tx_queue_size='512'`,
		`<source dev='/dev/vhost-vdpa-0'/>`, `packed='on'`)

	// Imported, the definition stays as it is.
	before := l.Virsh(t, host, "dumpxml", "--inactive", name)
	tf.Run(t, "state", "rm", address)
	tf.Run(t, "import", address, name)
	tf.Run(t, "apply")
	noChanges(t, tf)
	if after := l.Virsh(t, host, "dumpxml", "--inactive", name); after != before {
		t.Errorf("the import changed\n%s\nto\n%s", before, after)
	}

	changed := strings.NewReplacer("03:00.1", "03:00.2", "[7]", "[8]", "client", "server", "vdpa-0", "vdpa-1")
	apply(hcl{"interfaces": changed.Replace(config["interfaces"])},
		`bus='0x03' slot='0x00' function='0x2'`, `<tag id='8'/>`, `mode='server'`, "vdpa-1")
	apply(hcl{"interfaces": `{ fast = { network = "default", mac = "52:54:00:aa:bb:01" } }`},
		`<source network='default'/>`)
	if xml := l.Virsh(t, host, "dumpxml", "--inactive", name); strings.Contains(xml, "teaming") ||
		strings.Contains(xml, "managed=") {
		t.Errorf("something of the device is left:\n%s", xml)
	}
	gone(t, l, tf, name)
}

// linesOf is the line of a text that has a word, and the next one.
func linesOf(text, word string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.Contains(line, word) {
			return strings.Join(lines[i:min(i+2, len(lines))], "\n")
		}
	}
	return ""
}
