package virtualmachine_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

const (
	interfaceHost = "kvm1"
	// plainBridge is a bridge of the host's kernel, whose own address is plainAddress.
	plainBridge, plainAddress = "vf-test0", "192.0.2.1"
	// vswitch is a bridge of Open vSwitch. taggedPort, whose address is taggedAddress, is its port with VLAN tag 42.
	vswitch, taggedPort, taggedAddress = "vf-ovs0", "vf-tag42", "198.51.100.1"
	// switchPort is the interface_id of the virtual port on the switch.
	switchPort = "ad6e4a1e-4a66-4c5a-b5a4-3f1c0c1d2e01"

	lanMAC, switchMAC, groupMAC = "52:54:00:ad:00:01", "52:54:00:ad:00:02", "52:54:00:ad:00:03"
	wholeMAC, defaultMAC        = "52:54:00:ad:00:04", "52:54:00:ad:00:05"
	nativeMAC                   = "52:54:00:ad:00:06"
)

// connected is a guest with an interface on each of the bridges, and one that shares a device of the host.
type connected struct {
	l    *lab.Lab
	name string
	tf   *acctest.CLI
	// resources are what the VM refers to.
	resources string
	config    hcl
	process   *started
}

func newConnected(t *testing.T) *connected {
	t.Helper()
	l := lab.Open(t)
	name := lab.Name(t)
	removeLinks(t, l) // The last cleanup: libvirt and Open vSwitch have let go of the links by then.
	l.RemoveDomain(t, name)
	l.OpenVSwitch(t, interfaceHost, vswitch)
	l.Run(t, interfaceHost, "sh", "-ec", fmt.Sprintf(`ip link add %[1]s type bridge
ovs-vsctl add-port %[3]s %[4]s tag=42 -- set interface %[4]s type=internal
ip addr add %[2]s/24 dev %[1]s
ip addr add %[5]s/24 dev %[4]s
ip link set %[1]s up
ip link set %[4]s up`, plainBridge, plainAddress, vswitch, taggedPort, taggedAddress))
	return &connected{
		l: l, name: name, tf: acctest.NewCLI(t),
		config:  guest(l, name).with(talking).with(hcl{"host": quote(interfaceHost), "cpu": `{ cores = 2 }`}),
		process: &started{l: l, host: interfaceHost, name: name},
		resources: fmt.Sprintf(`
resource "virtfleet_network" "switch" {
  name         = %[1]q
  hosts        = [%[2]q]
  forward      = { mode = "bridge" }
  bridge       = %[3]q
  virtual_port = { type = "openvswitch" }
  port_groups = {
    ops = {
      vlan      = { tags = [45] }
      bandwidth = { inbound = { average = 3000, peak = 6000 }, outbound = { average = 3000 } }
    }
    eng = { vlan = { tags = [46, 47], trunk = true } }
    all = { default = true, vlan = { tags = [41, 44], trunk = true, native_tag = 41, native_mode = "untagged" } }
  }
}
resource "virtfleet_network" "whole" {
  name         = "%[1]s-whole"
  hosts        = [%[2]q]
  forward      = { mode = "bridge" }
  bridge       = %[3]q
  virtual_port = { type = "openvswitch" }
  vlan         = { tags = [48] }
}
`, name, interfaceHost, vswitch),
	}
}

// removeLinks removes what newConnected adds to the host, when the test ends, passed or failed. Open vSwitch leaves its
// links there when it is stopped.
func removeLinks(t *testing.T, l *lab.Lab) {
	t.Helper()
	added := []string{plainBridge, taggedPort, vswitch, "ovs-netdev"}
	t.Cleanup(func() {
		links, err := l.Host(interfaceHost).Run(context.WithoutCancel(t.Context()), "sh", append([]string{"-ec", `for link; do
	if ip link show dev "$link" >/dev/null 2>&1; then ip link del dev "$link"; fi
done
ip -o link`, "sh"}, added...)...)
		if err != nil {
			t.Error(err)
		}
		for _, link := range added {
			if strings.Contains(links, ": "+link) {
				t.Errorf("the host still has %s:\n%s", link, links)
			}
		}
	})
}

// filter lets a guest send from one address only.
func (c *connected) filter() string {
	return fmt.Sprintf(`
resource "virtfleet_network_filter" "address" {
  name  = %q
  hosts = [%q]
  rules = [{ action = "drop", direction = "out", protocol = "ip", match = { srcipaddr = "$IP" }, negate = true }]
}
`, c.name, interfaceHost)
}

// interfaces are those of the guest: how the port of the plain bridge is, which address it may use, whether the shared
// device has a link, and which VLAN and limit in KiB/s a port of the switch has. Another port has those of a port
// group, one has the VLAN of its network, one has the VLANs of its network's default port group, and one is a trunk
// with a native VLAN of its own.
func (c *connected) interfaces(lan, address, tap, vlan string, limit int) hcl {
	return hcl{"interfaces": fmt.Sprintf(`{
    lan = {
      bridge = %q, mac = %q, mtu = 1400, queues = 2, %s
      driver = { rx_queue_size = 512, name = "qemu", host_offloads = { tso4 = false } }
      filter = { name = virtfleet_network_filter.address.name, parameters = { IP = %q } }
    }
    tap    = { direct = { device = "eth0", mode = "bridge" }, %s }
    switch = {
      network      = virtfleet_network.switch.name, mac = %q, vlan = { tags = [%s] }
      virtual_port = { type = "openvswitch", interface_id = %[14]q }
      bandwidth    = { inbound = { average = %[8]d, peak = %[9]d, burst = 512 }, outbound = { average = %[8]d } }
    }
    group = { network = virtfleet_network.switch.name, mac = %[10]q, port_group = "ops" }
    whole = { network = virtfleet_network.whole.name, mac = %[11]q }
    usual = { network = virtfleet_network.switch.name, mac = %[12]q }
    native = {
      network = virtfleet_network.switch.name, mac = %[13]q
      vlan    = { tags = [51, 52], trunk = true, native_tag = 52, native_mode = "tagged" }
    }
  }`, plainBridge, lanMAC, lan, address, tap, switchMAC, vlan, limit, 2*limit, groupMAC, wholeMAC, defaultMAC,
		nativeMAC, switchPort)}
}

func (c *connected) write(t *testing.T, change hcl) {
	t.Helper()
	c.tf.Config(t, acctest.OneHost(c.l)+c.resources+c.filter()+c.config.with(change).String())
}

// apply changes the VM, which isn't restarted.
func (c *connected) apply(t *testing.T, change hcl) {
	t.Helper()
	c.write(t, change)
	c.config = c.config.with(change)
	c.tf.Run(t, "apply")
	if err := c.process.same(t)(nil); err != nil {
		t.Error(err)
	}
	noChanges(t, c.tf)
}

func (c *connected) refused(t *testing.T, change hcl, texts ...string) {
	t.Helper()
	c.write(t, change)
	expect(t, c.tf.Fail(t, "plan"), texts...)
}

// addresses gives the guest its addresses, once its DHCP clients have begun, which removes any that are there.
func (c *connected) addresses(t *testing.T) {
	t.Helper()
	c.says(t, fmt.Sprintf(`device() { dirname $(grep -l "$1" /sys/class/net/*/address) | xargs basename; }
lan=$(device %s) switch=$(device %s)
for device in $lan $switch; do until grep -q discover /run/dhcp.$device; do sleep 0.2; done; done
ip addr add 192.0.2.2/24 dev $lan; ip addr add 192.0.2.3/24 dev $lan; ip link set $lan up
ip addr add 198.51.100.2/24 dev $switch; ip link set $switch up`, lanMAC, switchMAC))
}

func (c *connected) says(t *testing.T, script string) string {
	t.Helper()
	return outputInGuest(t, c.l, interfaceHost, c.name, script)
}

// reaches says which address the guest reaches from which of its own.
func (c *connected) reaches(t *testing.T, from, to string) {
	t.Helper()
	c.says(t, fmt.Sprintf("until ping -c 1 -W 5 -I %s %s; do :; done", from, to))
}

// misses says which it doesn't reach.
func (c *connected) misses(t *testing.T, from, to string) {
	t.Helper()
	if got := c.says(t, fmt.Sprintf("ping -c 1 -W 1 -I %s %s >/dev/null && echo answered", from, to)); got != "" {
		t.Errorf("the guest reaches %s from %s", to, from)
	}
}

// uptime is how long the guest's clock has run, in its own words.
func (c *connected) uptime(t *testing.T) float64 {
	t.Helper()
	seconds, err := strconv.ParseFloat(strings.Fields(c.says(t, "cat /proc/uptime"))[0], 64)
	if err != nil {
		t.Fatal(err)
	}
	return seconds
}

// port checks what the host's bridge says of the guest's port.
func (c *connected) port(t *testing.T, want string) {
	t.Helper()
	links := c.l.Run(t, interfaceHost, "bridge", "-d", "link", "show")
	if !strings.Contains(linesOf(links, "master "+plainBridge), want) {
		t.Errorf("the port of the bridge isn't %q:\n%s", want, links)
	}
}

// device is the host's end of the interface with an address.
func (c *connected) device(t *testing.T, mac string) string {
	t.Helper()
	for _, line := range strings.Split(c.l.Virsh(t, interfaceHost, "domiflist", c.name), "\n") {
		if strings.Contains(line, mac) {
			return strings.Fields(line)[0]
		}
	}
	t.Fatalf("the VM has no interface with the address %s", mac)
	return ""
}

// tagged checks the VLANs of the switch's ports, in the switch: the tag of an access port, or the tags of a trunk.
func (c *connected) tagged(t *testing.T, ports map[string]string) {
	t.Helper()
	for mac, want := range ports {
		device := c.device(t, mac)
		got := strings.Fields(strings.NewReplacer(", ", ",", "[]", "").Replace(
			c.l.Run(t, interfaceHost, "ovs-vsctl", "get", "port", device, "tag", "trunks")))
		if !slices.Equal(got, []string{want}) {
			t.Errorf("the port of %s has the VLANs %q; want %s", mac, got, want)
		}
	}
}

// trunks checks the ports of the switch that are trunks with a native VLAN, in the switch: the native VLAN, all VLANs,
// and whether packets of the native VLAN have a tag.
func (c *connected) trunks(t *testing.T, ports map[string]string) {
	t.Helper()
	for mac, want := range ports {
		got := c.l.Run(t, interfaceHost, "ovs-vsctl", "get", "port", c.device(t, mac), "tag", "trunks", "vlan_mode")
		if is := strings.Join(strings.Split(strings.TrimSpace(got), "\n"), " "); is != want {
			t.Errorf("the port of %s is %q; want %q", mac, is, want)
		}
	}
}

// limited checks the limit of a port of the switch: in the switch and in the kernel.
func (c *connected) limited(t *testing.T, mac string, limit int) {
	t.Helper()
	device := c.device(t, mac)
	for what, is := range map[string][2]string{
		"limit of Open vSwitch": {
			c.l.Run(t, interfaceHost, "ovs-vsctl", "get", "interface", device, "ingress_policing_rate"), fmt.Sprint(limit * 8),
		},
		"limit of the kernel": {
			c.l.Run(t, interfaceHost, "tc", "class", "show", "dev", device),
			fmt.Sprintf("rate %dMbit ceil %dMbit", limit*8/1000, 2*limit*8/1000),
		},
	} {
		if !strings.Contains(is[0], is[1]) {
			t.Errorf("%s of %s: want %s in\n%s", what, device, is[1], is[0])
		}
	}
}

// limitedByItself checks the limit of the interface that has one of its own, also in libvirt, which doesn't report
// those of port groups there.
func (c *connected) limitedByItself(t *testing.T, limit int) {
	t.Helper()
	c.limited(t, switchMAC, limit)
	said := c.l.Virsh(t, interfaceHost, "domiftune", c.name, c.device(t, switchMAC))
	if want := fmt.Sprintf("inbound.average: %d", limit); !strings.Contains(said, want) {
		t.Errorf("want %s in\n%s", want, said)
	}
}

// TestAccInterface_running: what is set of the interfaces of a running guest is what the guest and the host's bridges
// have; what can be changed while it runs is; and what the host can't do is refused in the plan. Network and filter are
// created by the same apply, and an import changes nothing. Limits are shown on Open vSwitch: for a plain bridge
// libvirt needs classifiers of traffic that not every kernel has.
func TestAccInterface_running(t *testing.T) {
	t.Parallel()
	c := newConnected(t)
	c.apply(t, c.interfaces("isolated = true", "192.0.2.2", `model = "virtio"`, "42", 1000).with(hcl{
		"devices": `{ watchdog = { action = "none" } }`,
	}))
	if err := look(t, c.l, interfaceHost, c.name, `<mtu size='1400'/>`, `queues='2'`, `rx_queue_size='512'`,
		`<port isolated='yes'/>`, `<source dev='eth0' mode='bridge'/>`)(nil); err != nil {
		t.Error(err)
	}
	c.port(t, "isolated on")
	c.port(t, "mtu 1400")
	got := c.says(t, `cd /sys/class/net; for i in *; do echo $(cat $i/mtu) $(ls $i/queues | grep -c rx-); done`)
	if !strings.Contains(got, "1400 2") || !strings.Contains(got, "1500 1") {
		t.Errorf("the guest has interfaces with MTU and queues %q", got)
	}
	// Virtio's bit 11 says that the host takes large packets of TCP over IPv4.
	got = c.says(t, `cd /sys/class/net; for i in */device/features; do echo $(cat ${i%%/*}/mtu) tso4=$(cut -c12 $i); done`)
	if !strings.Contains(got, "1400 tso4=0") || !strings.Contains(got, "1500 tso4=1") {
		t.Errorf("the guest has interfaces with MTU and offloads %q", got)
	}
	taps := c.l.Run(t, interfaceHost, "ip", "-d", "link", "show", "type", "macvtap")
	if !strings.Contains(taps, "mode bridge") {
		t.Errorf("the host has no macvtap device:\n%s", taps)
	}
	c.addresses(t)
	c.reaches(t, "192.0.2.2", plainAddress)
	c.misses(t, "192.0.2.3", plainAddress)
	c.reaches(t, "198.51.100.2", taggedAddress)
	c.limitedByItself(t, 1000)
	c.limited(t, groupMAC, 3000)
	c.tagged(t, map[string]string{switchMAC: "42", groupMAC: "45", wholeMAC: "48"})
	c.trunks(t, map[string]string{
		defaultMAC: "41 [41, 44] native-untagged", nativeMAC: "52 [51, 52] native-tagged",
	})
	port := c.l.Run(t, interfaceHost, "ovs-vsctl", "get", "interface", c.device(t, switchMAC), "external_ids:iface-id")
	if !strings.Contains(port, switchPort) {
		t.Errorf("the switch knows the port as %s", port)
	}
	c.importsSwitched(t)

	// What a running guest's ports can be told is changed while its clock runs; its MTU and its queues aren't.
	before := c.uptime(t)
	c.apply(t, c.interfaces("isolated = false", "192.0.2.3", `link_up = false`, "43", 2000).with(hcl{
		"devices": `{ watchdog = { model = "none" } }`, // It leaves the conventional bus, and then has a slot there.
	}))
	if now := c.uptime(t); now <= before {
		t.Errorf("the guest's clock was at %v before the change, and is at %v", before, now)
	}
	c.port(t, "isolated off")
	c.reaches(t, "192.0.2.3", plainAddress)
	c.misses(t, "192.0.2.2", plainAddress)
	c.misses(t, "198.51.100.2", taggedAddress)
	c.limitedByItself(t, 2000)
	c.tagged(t, map[string]string{switchMAC: "43", groupMAC: "45", wholeMAC: "48"})
	c.apply(t, c.interfaces("isolated = false", "192.0.2.3", `link_up = false`, "43, 44", 2000).with(hcl{
		"devices": `{ watchdog = { action = "none" } }`,
	}))
	c.tagged(t, map[string]string{switchMAC: "[43,44]", groupMAC: "45", wholeMAC: "48"})
	c.refused(t, hcl{"interfaces": strings.Replace(c.config["interfaces"], "1400", "1300", 1)},
		"Change needs a restart", "interfaces.lan.mtu: The guest's network card is made with it")
	c.refused(t, hcl{"interfaces": strings.Replace(c.config["interfaces"], "tso4", "gso", 1)},
		"Change needs a restart", "interfaces.lan.driver.host_offloads: The guest's network card is made with it")
	c.refused(t, hcl{"interfaces": strings.Replace(c.config["interfaces"], "tso4", "tso5", 1)},
		`"tso5" isn't one of csum, gso`)
	c.refused(t, hcl{"interfaces": strings.Replace(c.config["interfaces"], `"ops"`, `"eng"`, 1)},
		"Change needs a restart", "interfaces.group.port_group: An interface is connected to a port group when the VM starts")

	// libvirt 9.0 can't take a running guest's port from Open vSwitch, nor give it one.
	ofSwitch := "network      = virtfleet_network.switch.name, mac = " + quote(switchMAC)
	c.refused(t, hcl{"interfaces": strings.Replace(c.config["interfaces"], ofSwitch,
		strings.Replace(ofSwitch, "virtfleet_network.switch.name", `"default"`, 1), 1)}, "Change needs a restart",
		"interfaces.switch.network: Before 10.8.0, libvirt can't move ports of Open vSwitch")
	c.refused(t, hcl{"interfaces": strings.Replace(c.config["interfaces"], "bridge = "+quote(plainBridge),
		"network = virtfleet_network.switch.name", 1)}, "interfaces.lan.network", interfaceHost,
		"can't connect an interface of a running VM to network", "openvswitch", "Declare virtual_port")

	// A filter that the VM uses is kept.
	c.tf.Config(t, acctest.OneHost(c.l)+c.resources+
		strings.Replace(c.config.String(), "virtfleet_network_filter.address.name", quote(c.name), 1))
	expect(t, c.tf.Fail(t, "apply"), "it is in use by virtual machine "+c.name)

	// What this host can't do.
	for lan, says := range map[string]string{
		`bridge = "vf-test0", vlan = { tags = [42] }`:                     "VLAN tags need an Open vSwitch (virtual_port)",
		`bridge = "vf-test0", filter = { name = "no-such" }`:              `it has no network filter "no-such"`,
		`direct = { device = "nonsense0", mode = "bridge" }`:              `it has no network device "nonsense0"`,
		`network = "default", port_group = "no-such"`:                     `network "default" has no port group "no-such"`,
		`network = virtfleet_network.switch.name, port_group = "no-such"`: `has no port group "no-such"`,
	} {
		c.refused(t, hcl{"interfaces": "{ lan = { " + lan + " } }", "update_policy": quote("Restart")}, "lan", interfaceHost,
			says)
	}
	c.refused(t, hcl{ // Debian 12 has built its libvirt without passt.
		"interfaces":    `{ lan = { user = true, backend = { type = "passt", tcp_ports = ["2022:22"] } } }`,
		"update_policy": quote("Restart"),
	}, interfaceHost, "its libvirt refuses this definition", "passt")

	// The VM that runs is imported as it is.
	c.write(t, nil)
	definitions := func() string {
		return c.l.Virsh(t, interfaceHost, "dumpxml", c.name) + c.l.Virsh(t, interfaceHost, "dumpxml", "--inactive", c.name)
	}
	defined := definitions()
	c.tf.Run(t, "state", "rm", address)
	c.tf.Run(t, "import", address, c.name)
	c.tf.Run(t, "apply")
	noChanges(t, c.tf)
	if after := definitions(); after != defined {
		t.Errorf("the import changed\n%s\nto\n%s", defined, after)
	}
	destroyAndCheck(t, c.l, c.tf, c.name)
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
	config := tinyVM(name).with(hcl{
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
		tf.Config(t, acctest.OneHost(l)+config.String())
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
	destroyAndCheck(t, l, tf, name)
}
