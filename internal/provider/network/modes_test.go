package network_test

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// modes is a network of each mode that needs no hardware, on one host.
type modes struct {
	l                            *lab.Lab
	name                         string
	routed, open, plain, vswitch string // bridges
	translated, masqueraded      string // bridges of networks with NAT
}

// kinds are the networks by what is in their names.
var kinds = []string{
	"route", "open", "isolated", "bridge", "switch", "macvtap", "private", "vepa", "passthrough", "limited",
	"hostdev", "tagged", "nat", "masquerade",
}

// inactive are those that the lab's hosts can't start.
var inactive = []string{"limited", "hostdev"}

func newModes(t *testing.T) *modes {
	t.Helper()
	name := lab.Name(t)
	key := name[len(name)-6:]
	m := &modes{
		l: lab.Open(t), name: name, routed: "vr" + key, open: "vo" + key, plain: "vb" + key, vswitch: "vs" + key,
		translated: "vt" + key, masqueraded: "vm" + key,
	}
	m.l.OpenVSwitch(t, "kvm1", m.vswitch)
	return m
}

// config has the last address that is handed out, which a record repeats, the VLAN of a port group, which is the port
// of another record, too, the devices of a macvtap network, and the hosts of the isolated network.
func (m *modes) config(last, tag, devices, hosts string) string {
	config := acctest.Config(m.l)
	for kind, says := range map[string]string{
		"route": fmt.Sprintf(`
  bridge  = %q
  forward = { mode = "route" }
  domain  = { name = "routed.test" }
  dns = {
    forward_plain_names = false
    forwarders = [
      { address = "192.0.2.53", domain = "corp.test" }, { domain = "lan.test" }, { address = "2001:db8::53" },
    ]
    hosts = [{ ip = "10.214.1.1", names = ["gw"] }, { ip = "fd00:214:1::1", names = ["gw6", "router6"] }]
    srv = [{
      service = "ldap", protocol = "tcp", domain = "routed.test", target = "gw.routed.test", port = %[3]s, priority = 5
      weight  = 9
    }]
    txt = [{ name = "note", value = %[2]q }]
  }
  ips = [
    { address = "10.214.1.1/24", dhcp = { ranges = [{ start = "10.214.1.100", end = %[2]q }] } },
    {
      address = "fd00:214:1::1/64"
      dhcp = {
        ranges = [{ start = "fd00:214:1::100", end = "fd00:214:1::1ff" }]
        hosts = [
          { duid = "00:03:00:01:52:54:00:07:00:01", name = "six", ip = "fd00:214:1::%[3]s" },
          { duid = "00:03:00:01:52:54:00:07:00:02", ip = "fd00:214:1::1%[3]s" },
        ]
      }
    },
  ]
  routes = [
    { destination = "10.215.0.0/16", gateway = "10.214.1.2", metric = 7 },
    { destination = "fd00:215::/48", gateway = "fd00:214:1::2" },
  ]
  dnsmasq_options = ["dhcp-option=option:ntp-server,10.214.1.1"]`, m.routed, last, tag),
		"open": fmt.Sprintf(`
  autostart = true
  bridge    = %q
  forward   = { mode = "open" }
  dns       = { enabled = false }
  ips       = [{ address = "10.214.2.1/24" }]`, m.open),
		"nat": fmt.Sprintf(`
  bridge  = %q
  forward = { mode = "nat", nat = { start = "192.0.2.8", end = "192.0.2.9", port_start = 2000, port_end = 3000 } }
  dns     = { enabled = false }
  ips     = [{ address = "10.214.5.1/24" }]`, m.translated),
		"masquerade": fmt.Sprintf(`
  bridge  = %q
  forward = { mode = "nat" }
  dns     = { enabled = false }
  ips     = [{ address = "10.214.6.1/24" }]`, m.masqueraded),
		"isolated": `
  mtu = 1400
  ips = [{ address = "10.214.3.1/24" }]`,
		"bridge": fmt.Sprintf(`
  bridge  = %q
  forward = { mode = "bridge" }`, m.plain),
		"switch": fmt.Sprintf(`
  bridge       = %q
  forward      = { mode = "bridge" }
  virtual_port = { type = "openvswitch" }
  port_groups = {
    ops = { vlan = { tags = [%s] } }
    all = { default = true, vlan = { tags = [41, 44], trunk = true, native_tag = 41, native_mode = "untagged" } }
  }`, m.vswitch, tag),
		// A whole network in a VLAN. libvirt accepts a VLAN with Open vSwitch and with SR-IOV.
		"tagged": fmt.Sprintf(`
  bridge       = %q
  forward      = { mode = "bridge" }
  virtual_port = { type = "openvswitch" }
  vlan         = { tags = [48] }`, m.vswitch),
		// The virtual functions of a card with SR-IOV, which the lab lacks, so it isn't started.
		"hostdev": `
  active  = false
  forward = { mode = "hostdev", physical_function = "eth0", managed = true }`,
		// Limits need classifiers of traffic that not every kernel has, so it isn't started.
		"limited": `
  active    = false
  ips       = [{ address = "10.214.4.1/24" }]
  bandwidth = {
    inbound  = { average = 1000, peak = 2000, burst = 512 }
    outbound = { average = 500, burst = 64 }
  }`,
		"macvtap":     `forward = { mode = "bridge", devices = ["eth0"] }`,
		"private":     fmt.Sprintf(`forward = { mode = "private", devices = [%s] }`, devices),
		"vepa":        `forward = { mode = "vepa", devices = ["eth0"] }`,
		"passthrough": `forward = { mode = "passthrough", devices = ["eth0"] }`,
	} {
		on := `"kvm1"`
		if kind == "isolated" {
			on = hosts
		}
		config += fmt.Sprintf(`
resource "virtfleet_network" %[1]q {
  name  = "%[2]s-%[1]s"
  %[3]s
  hosts = [%[4]s]
}
`, kind, m.name, says, on)
	}
	return config
}

// has checks what a command on the host says.
func (m *modes) has(t *testing.T, wants []string, command ...string) resource.TestCheckFunc {
	t.Helper()
	return func(*terraform.State) error {
		said := m.l.Run(t, "kvm1", command[0], command[1:]...)
		for _, want := range wants {
			if !strings.Contains(said, want) {
				return fmt.Errorf("%q isn't in what %q says: %s", want, command, said)
			}
		}
		return nil
	}
}

// live checks what a network is: as it is active, or else as it is defined.
func (m *modes) live(t *testing.T, kind string, wants ...string) resource.TestCheckFunc {
	t.Helper()
	return m.has(t, wants, "virsh", "net-dumpxml", m.name+"-"+kind)
}

// serves checks what a file of the routed network tells its DNS and DHCP server.
func (m *modes) serves(t *testing.T, file string, wants ...string) resource.TestCheckFunc {
	t.Helper()
	return m.has(t, wants, "cat", "/var/lib/libvirt/dnsmasq/"+m.name+"-route."+file)
}

// on checks whether a host has the isolated network, and then whether it is active there.
func (m *modes) on(t *testing.T, host string, want bool) resource.TestCheckFunc {
	t.Helper()
	return func(*terraform.State) error {
		listed := m.l.Virsh(t, host, "net-list", "--all", "--name")
		if got := strings.Contains(listed, m.name+"-isolated"); got != want {
			return fmt.Errorf("host %s has %q", host, listed)
		}
		active := m.l.Virsh(t, host, "net-list", "--name")
		if got := strings.Contains(active, m.name+"-isolated"); got != want {
			return fmt.Errorf("active on host %s are %q", host, active)
		}
		return nil
	}
}

func (m *modes) active(t *testing.T) resource.TestCheckFunc {
	t.Helper()
	return func(*terraform.State) error {
		listed := strings.Fields(m.l.Virsh(t, "kvm1", "net-list", "--name"))
		for _, kind := range kinds {
			if slices.Contains(listed, m.name+"-"+kind) == slices.Contains(inactive, kind) {
				return fmt.Errorf("network %s is in the wrong state; active are %q", kind, listed)
			}
		}
		rules := m.l.Run(t, "kvm1", "iptables", "-S")
		if !strings.Contains(rules, m.routed) || strings.Contains(rules, m.open) {
			return fmt.Errorf("the host should have rules for %s and none for %s: %s", m.routed, m.open, rules)
		}
		return nil
	}
}

// crossing connects a client to each of five bridges: those of the routed, the open and the isolated network, and of
// two with NAT. It fails unless the first two reach each other, the third reaches its host and nothing else, and a
// server beyond the host sees the last two with the addresses that are theirs outside. That server knows no route to
// the networks. A port of a bridge takes some seconds before it passes anything on.
const crossing = `
routed=$1 open=$2 isolated=$3 nat=$4 masquerade=$5
server=
trap "kill \$server; for n in routed open isolated nat masquerade beyond; do ip netns del vf-\$n; done" EXIT
client() {
	ip netns add vf-$1
	ip link add vf-$1 type veth peer name client netns vf-$1
	ip link set vf-$1 master $2 up
	ip -n vf-$1 link set client up
	ip -n vf-$1 addr add $3.5/24 dev client
	ip -n vf-$1 route add default via $3.1
}
reaches() {
	for try in $(seq $3); do
		ip netns exec vf-$1 busybox ping -c 1 -W 1 $2 >/dev/null && return
	done
	return 1
}
seen() {
	for try in $(seq 30); do
		ip netns exec vf-$1 perl -MIO::Socket::INET -e \
			'print readline(IO::Socket::INET->new(PeerAddr => "203.0.113.2:7", Timeout => 1) or exit 1)' && return
	done
}
client routed $routed 10.214.1
client open $open 10.214.2
client isolated $isolated 10.214.3
client nat $nat 10.214.5
client masquerade $masquerade 10.214.6
ip netns add vf-beyond
ip link add vf-beyond type veth peer name server netns vf-beyond
ip addr add 203.0.113.1/24 dev vf-beyond
ip link set vf-beyond up
ip -n vf-beyond link set server up
ip -n vf-beyond addr add 203.0.113.2/24 dev server
ip -n vf-beyond route add 192.0.2.8/31 via 203.0.113.1
ip netns exec vf-beyond perl -MIO::Socket::INET -e '
	my $s = IO::Socket::INET->new(LocalPort => 7, Listen => 9) or die $!;
	while (my $c = $s->accept) { print $c $c->peerhost, ":", $c->peerport }' >/dev/null &
server=$!
reaches routed 10.214.2.5 30 || echo "routed: the open network isn't reached"
reaches open 10.214.1.5 30 || echo "routed: the open network doesn't reach it"
reaches isolated 10.214.3.1 30 || echo "isolated: its host isn't reached"
reaches isolated 10.214.2.5 1 && echo "isolated: the open network is reached"
reaches open 10.214.3.5 1 && echo "isolated: the open network reaches it"
reaches open 203.0.113.2 1 && echo "open: its addresses are translated"
from=$(seen nat)
case $from in 192.0.2.[89]:2???|192.0.2.[89]:3000) ;; *) echo "nat: the server beyond the host sees '$from'" ;; esac
from=$(seen masquerade)
case $from in 203.0.113.1:*) ;; *) echo "masquerade: the server beyond the host sees '$from'" ;; esac
exit 0
`

// crosses checks which networks pass packets on.
func (m *modes) crosses(t *testing.T) resource.TestCheckFunc {
	t.Helper()
	return func(*terraform.State) error {
		_, isolated, _ := strings.Cut(m.l.Virsh(t, "kvm1", "net-info", m.name+"-isolated"), "Bridge:")
		wrong := m.l.Run(t, "kvm1", "sh", "-ec", crossing, "sh", m.routed, m.open, strings.TrimSpace(isolated),
			m.translated, m.masqueraded)
		if wrong != "" {
			return errors.New(wrong)
		}
		return nil
	}
}

// TestAccNetwork_modes: networks of every mode that needs no hardware are active, and the host has what is declared of
// them: addresses, routes, MTU, and what its DNS and DHCP server was told. Routed and open networks pass packets on, an
// isolated one doesn't. Beyond the host, clients of networks with NAT have the host's address, or one that is declared.
// Ranges, reservations, records, port groups and devices change while the network is active; hosts come and go;
// autostart is repaired. Each is imported with the configuration that Terraform generates. A plan refuses a subnet that
// the host has on a device of its own.
func TestAccNetwork_modes(t *testing.T) {
	t.Parallel()
	m := newModes(t)
	ifindex := func() string { return m.l.Run(t, "kvm1", "cat", "/sys/class/net/"+m.routed+"/ifindex") }
	var before string
	devices := fmt.Sprintf(`"eth0", %q`, m.plain)
	const taken = "10.214.1.77/24"
	steps := []resource.TestStep{{
		// The subnet is that of a device of the host.
		PreConfig: func() {
			m.l.Run(t, "kvm1", "ip", "link", "add", m.plain, "type", "bridge")
			m.l.Run(t, "kvm1", "ip", "address", "add", taken, "dev", m.plain)
			m.l.Run(t, "kvm1", "ip", "link", "set", m.plain, "up")
		},
		Config: m.config("10.214.1.199", "42", `"eth0"`, `"kvm1"`), PlanOnly: true,
		ExpectError: regexp.MustCompile(`(?s)Host\s+"kvm1".*\s10.214.1.0/24\s.*` + m.plain),
	}, {
		PreConfig: func() { m.l.Run(t, "kvm1", "ip", "address", "del", taken, "dev", m.plain) },
		Config:    m.config("10.214.1.199", "42", `"eth0"`, `"kvm1"`),
		Check: resource.ComposeTestCheckFunc(
			m.active(t),
			m.crosses(t),
			m.has(t, []string{"10.215.0.0/16 via 10.214.1.2 dev " + m.routed, "metric 7"}, "ip", "route"),
			m.has(t, []string{"10.214.1.1/24", "fd00:214:1::1/64"}, "ip", "-o", "address", "show", m.routed),
			m.has(t, []string{"fd00:215::/48 via fd00:214:1::2 dev " + m.routed}, "ip", "-6", "route"),
			m.serves(t, "conf", "server=/corp.test/192.0.2.53\n", "server=/lan.test/#\n", "server=2001:db8::53\n", "no-resolv\n",
				"domain-needed\n", "srv-host=_ldap._tcp.routed.test,gw.routed.test,42,5,9\n", "txt-record=note,10.214.1.199\n",
				"dhcp-range=10.214.1.100,10.214.1.199", "dhcp-range=fd00:214:1::100,fd00:214:1::1ff",
				"dhcp-option=option:ntp-server,10.214.1.1\n"),
			m.serves(t, "addnhosts", "10.214.1.1\tgw", "fd00:214:1::1\tgw6\trouter6"),
			m.serves(t, "hostsfile", "id:00:03:00:01:52:54:00:07:00:01,six,[fd00:214:1::42]",
				"id:00:03:00:01:52:54:00:07:00:02,[fd00:214:1::142]"),
			// Without DNS and DHCP it has no server.
			m.has(t, nil, "test", "!", "-e", "/var/lib/libvirt/dnsmasq/"+m.name+"-open.conf"),
			m.live(t, "limited", "<inbound average='1000' peak='2000' burst='512'/>",
				"<outbound average='500' burst='64'/>"),
			m.live(t, "isolated", "<mtu size='1400'/>"),
			m.live(t, "switch", "<tag id='42'/>", "<tag id='41' nativeMode='untagged'/>", "<virtualport type='openvswitch'/>"),
			m.live(t, "private", "<forward dev='eth0' mode='private'>"),
			m.live(t, "hostdev", "<forward mode='hostdev' managed='yes'>", "<pf dev='eth0'/>"),
			m.live(t, "tagged", "<vlan>", "<tag id='48'/>"),
		),
	}, {
		PreConfig: func() {
			before = ifindex()
			m.l.Virsh(t, "kvm1", "net-autostart", "--disable", m.name+"-open")
		},
		Config: m.config("10.214.1.149", "43", devices, `"kvm1", "kvm2"`),
		ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
			plancheck.ExpectResourceAction("virtfleet_network.route", plancheck.ResourceActionUpdate),
			plancheck.ExpectResourceAction("virtfleet_network.switch", plancheck.ResourceActionUpdate),
			plancheck.ExpectResourceAction("virtfleet_network.private", plancheck.ResourceActionUpdate),
			plancheck.ExpectResourceAction("virtfleet_network.open", plancheck.ResourceActionUpdate),
			plancheck.ExpectResourceAction("virtfleet_network.isolated", plancheck.ResourceActionUpdate),
			plancheck.ExpectResourceAction("virtfleet_network.vepa", plancheck.ResourceActionNoop),
		}},
		Check: resource.ComposeTestCheckFunc(
			m.active(t),
			m.live(t, "route", "end='10.214.1.149'"),
			m.serves(t, "conf", "gw.routed.test,43,5,9\n", "txt-record=note,10.214.1.149\n"),
			m.serves(t, "hostsfile", "six,[fd00:214:1::43]", "00:02,[fd00:214:1::143]"), m.live(t, "switch", "<tag id='43'/>"),
			m.live(t, "private", "<interface dev='"+m.plain+"'/>"),
			m.has(t, []string{m.name + "-open"}, "virsh", "net-list", "--autostart", "--name"),
			m.on(t, "kvm2", true),
			func(*terraform.State) error {
				if now := ifindex(); now != before {
					return fmt.Errorf("the bridge was number %s and is %s now", before, now)
				}
				return nil
			},
		),
	}}
	generated := map[string]string{}
	for _, kind := range kinds {
		generated["virtfleet_network."+kind] = m.name + "-" + kind
		unread := []string{"update_policy"}
		if kind == "isolated" {
			unread = append(unread, "hosts") // Every host has it.
		}
		steps = append(steps, resource.TestStep{
			ResourceName: "virtfleet_network." + kind, ImportState: true, ImportStateId: m.name + "-" + kind,
			ImportStateVerify: true, ImportStateVerifyIgnore: unread,
		})
	}
	steps = append(steps, resource.TestStep{
		PreConfig: func() { acctest.ImportGenerated(t, acctest.Config(m.l), generated) },
		Config:    m.config("10.214.1.149", "43", devices, `"kvm2"`),
		Check:     resource.ComposeTestCheckFunc(m.on(t, "kvm1", false), m.on(t, "kvm2", true)),
	})
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: acctest.Factories(t), Steps: steps,
		CheckDestroy: func(*terraform.State) error {
			m.l.Run(t, "kvm1", "ip", "link", "del", m.plain)
			for _, host := range []string{"kvm1", "kvm2"} {
				if all := m.l.Virsh(t, host, "net-list", "--all", "--name"); strings.Contains(all, m.name) {
					return fmt.Errorf("host %s still has %s", host, all)
				}
			}
			return nil
		},
	})
}
