package networkdhcphost_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

func TestMain(m *testing.M) { acctest.Main(m) }

func TestNetworkDHCPHost_refused(t *testing.T) {
	t.Parallel()
	acctest.NeedsTerraform(t)
	step := func(says, want string) resource.TestStep {
		return resource.TestStep{
			Config:      acctest.Local("") + "resource \"virtfleet_network_dhcp_host\" \"this\" {\n" + says + "\n}",
			ExpectError: regexp.MustCompile(want),
		}
	}
	// The network of the configuration isn't active yet, and is in no host's libvirt.
	const network = `
resource "virtfleet_network" "this" {
  name   = "planned"
  active = false
  ips    = [{ address = "10.213.9.1/24", dhcp = {} }]
}
`
	// Which hosts get the network isn't known before the apply.
	undecided := strings.Replace(network, "  active", "  hosts  = [terraform_data.hosts.output[0]]\n  active", 1) +
		"resource \"terraform_data\" \"hosts\" {\n  input = [\"local\"]\n}\n"
	planned := func(more, says, want string) resource.TestStep {
		s := step(says, want)
		s.Config, s.PlanOnly, s.ExpectNonEmptyPlan = s.Config+more, true, want == ""
		if want == "" {
			s.ExpectError = nil
		}
		return s
	}
	resource.UnitTest(t, resource.TestCase{
		ProtoV6ProviderFactories: acctest.Factories(t),
		Steps: []resource.TestStep{
			step("network = \"default\"\nip = \"192.168.122.9\"", "needs\\s+mac"),
			step("network = \"default\"\nip = \"x\"\nmac = \"52:54:00:00:00:01\"", "isn't an\\s+address"),
			step("network = \"default\"\nip = \"fd00::2\"\nmac = \"52:54:00:00:00:01\"", "needs\\s+duid"),
			step("network = \"default\"\nip = \"fd00::2\"\nname = \"web\"",
				`(?s)fd00::2\s+needs\s+duid.*ips\[\*\]\.dhcp\.hosts`),
			step("network = \"default\"\nip = \"192.168.122.9\"\nmac = \"52:54:00:00:00:01\"\nduid = \"00:03:00:01\"",
				`Remove\s+duid`),
			step("network = \"absent\"\nip = \"10.0.0.2\"\nmac = \"52:54:00:00:00:01\"", "absent"),
			step("network = \"default\"\nip = \"10.0.0.2\"\nmac = \"52:54:00:00:00:01\"", "no address\\s+range"),
			planned(network, "network = virtfleet_network.this.name\nip = \"10.213.9.7\"\nmac = \"52:54:00:00:00:01\"", ""),
			planned(network, "network = virtfleet_network.this.name\nip = \"10.213.8.7\"\nmac = \"52:54:00:00:00:01\"",
				`(?s)no\s+address\s+range\s+that\s+10.213.8.7.*10.213.9.0/24.*Host:\s+local.*destroy\s+-refresh=false`),
			planned(undecided, "network = virtfleet_network.this.name\nip = \"10.213.8.7\"\nmac = \"52:54:00:00:00:01\"", ""),
			planned(network, "network = virtfleet_network.this.name\nip = \"10.213.9.1\"\nmac = \"52:54:00:00:00:01\"",
				`host's\s+own\s+address`),
			planned(strings.Replace(network, ", dhcp = {}", "", 1),
				"network = virtfleet_network.this.name\nip = \"10.213.9.7\"\nmac = \"52:54:00:00:00:01\"",
				`(?s)removes\s+this\s+reservation.*ips\s+for\s+10.213.9.0/24.*destroy\s+-refresh=false`),
			planned(strings.Replace(network, "dhcp = {}", "dhcp = { hosts = [] }", 1),
				"network = virtfleet_network.this.name\nip = \"10.213.9.7\"\nmac = \"52:54:00:00:00:01\"",
				`removes\s+this\s+reservation`),
			planned("", "network = \"absent\"\nip = \"10.0.0.2\"\nmac = \"52:54:00:00:00:01\"",
				`(?s)"absent".*virtfleet_network.*another\s+provider\s+block.*destroy\s+-refresh=false`),
			planned("", "network = \"default\"\nip = \"10.0.0.2\"\nmac = \"52:54:00:00:00:01\"",
				`(?s)"default"\s+has\s+no\s+address\s+range`),
		},
	})
}

// offer6 connects a client to a bridge and prints the address that it is offered for a DUID. Busybox has no client of
// DHCPv6. The client has a network namespace of its own: to the host, an address of the host isn't on the network.
const offer6 = `
bridge=$1 duid=$2
ip netns add dhcp6
trap "ip netns del dhcp6" EXIT
ip link add dhcp6-peer type veth peer name dhcp6-client netns dhcp6
ip link set dhcp6-peer master $bridge up
ip -n dhcp6 link set dhcp6-client up
ip -n dhcp6 addr add fe80::546/64 dev dhcp6-client nodad
ip netns exec dhcp6 perl -MSocket=:all -e '
	sub option { pack "nn/a", @_ }
	sub find { # the first option of this kind
		my ($kind, $rest) = @_;
		while (length $rest) { (my $of, my $value, $rest) = unpack "n n/a a*", $rest; return $value if $of == $kind }
	}
	socket my $s, AF_INET6, SOCK_DGRAM, 0 or die $!;
	bind $s, pack_sockaddr_in6 546, inet_pton(AF_INET6, "fe80::546"), $ARGV[0] or die $!;
	my $servers = pack_sockaddr_in6 547, inet_pton(AF_INET6, "ff02::1:2"), $ARGV[0];
	my $duid = pack "H*", $ARGV[1] =~ s/://gr;
	my $solicit = pack("CC3", 1, 1, 2, 3) . option(1, $duid) . option(3, pack "N3", 1, 0, 0) . option(8, pack "n", 0);
	for (1 .. 20) {
		send $s, $solicit, 0, $servers or die $!;
		vec(my $ready, fileno $s, 1) = 1;
		select $ready, undef, undef, 1 or next;
		recv $s, my $advertise, 9000, 0;
		my $address = find 5, substr find(3, substr $advertise, 4), 12;
		print inet_ntop AF_INET6, substr $address, 0, 16;
		exit;
	}
' $(ip netns exec dhcp6 cat /sys/class/net/dhcp6-client/ifindex) $duid`

// TestAccNetworkDHCPHost is the life of two reservations, with IPv4 and with IPv6, together with one that was made by
// hand. They are added on a host that their network gains, and again where it is created again, by the same apply. A
// client with the MAC address gets the reserved address and name, with an option of the network's DHCP server.
func TestAccNetworkDHCPHost(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	const address, mac = "virtfleet_network_dhcp_host.this", "52:54:00:07:01:01"
	const both = "kvm1 kvm2"
	const six, duid = "virtfleet_network_dhcp_host.six", "00:03:00:01:52:54:00:07:01:01"
	// config has the network on some hosts, the end of both addresses, and the host name of the first.
	config := func(hosts, last, hostname string) string {
		return fmt.Sprintf(`%[1]s
resource "virtfleet_network" "this" {
  name   = %[2]q
  bridge = %[3]q
  hosts  = %[4]s
  ips = [
    { address = "10.213.8.1/24", dhcp = { ranges = [{ start = "10.213.8.100", end = "10.213.8.199" }] } },
    { address = "fd00:213:8::1/64", dhcp = { ranges = [{ start = "fd00:213:8::100", end = "fd00:213:8::1ff" }] } },
  ]
  dnsmasq_options = ["dhcp-option=option:ntp-server,10.213.8.7"]
}
resource "virtfleet_network_dhcp_host" "this" {
  network = virtfleet_network.this.name
  mac     = %[5]q
  ip      = "10.213.8.%[6]s"
  name    = %[7]q
}
resource "virtfleet_network_dhcp_host" "six" {
  network = virtfleet_network.this.name
  duid    = %[8]q
  ip      = "fd00:213:8::%[6]s"
}`, acctest.Config(l), name, "vn"+name[len(name)-6:], hosts, strings.ToUpper(mac), last, hostname, duid)
	}
	decided := "resource \"terraform_data\" \"host\" {\n  input = \"kvm1\"\n}\n" +
		config("[terraform_data.host.output]", "52", "www")
	// defined checks live and persistent definition on hosts.
	defined := func(hosts, has, hasNot string) resource.TestCheckFunc {
		return func(*terraform.State) error {
			for _, host := range strings.Fields(hosts) {
				for _, flags := range [][]string{nil, {"--inactive"}} {
					xml := l.Virsh(t, host, append([]string{"net-dumpxml", name}, flags...)...)
					if !strings.Contains(xml, has) || hasNot != "" && strings.Contains(xml, hasNot) {
						return fmt.Errorf("host %s: want %s, not %s, in %s", host, has, hasNot, xml)
					}
				}
			}
			return nil
		}
	}
	// client is what a DHCP client with a MAC address is told on a host: its address and name, and an option that the
	// network declares for its DHCP server.
	client := func(mac string, want *regexp.Regexp) resource.TestCheckFunc {
		return func(*terraform.State) error {
			const client = `
ip link add dhcp-peer type veth peer name dhcp-client address MAC
trap "ip link delete dhcp-peer; rm -f /run/dhcp-client" EXIT
ip link set dhcp-peer master BRIDGE up
ip link set dhcp-client up
printf '#!/bin/sh\n[ "$1" != bound ] || echo "lease: $ip $hostname, ntp: $ntpsrv"\n' >/run/dhcp-client
chmod +x /run/dhcp-client
busybox udhcpc -f -q -n -t 20 -T 1 -O hostname -O ntpsrv -i dhcp-client -s /run/dhcp-client`
			script := strings.NewReplacer("MAC", mac, "BRIDGE", "vn"+name[len(name)-6:]).Replace(client)
			if out := l.Run(t, "kvm1", "sh", "-ec", script); !want.MatchString(out) {
				return fmt.Errorf("want %s; the client says %s", want, out)
			}
			return nil
		}
	}
	gets := func(want string) resource.TestCheckFunc {
		return client(mac, regexp.MustCompile("lease: "+regexp.QuoteMeta(want+", ntp: 10.213.8.7\n")))
	}
	// offered is the address that a DHCP client of IPv6 with a DUID is offered.
	offered := func(duid, want string) resource.TestCheckFunc {
		return func(*terraform.State) error {
			got := l.Run(t, "kvm1", "sh", "-ec", offer6, "sh", "vn"+name[len(name)-6:], duid)
			if !regexp.MustCompile("^" + want + "$").MatchString(strings.TrimSpace(got)) {
				return fmt.Errorf("want %s; the client of IPv6 is offered %s", want, got)
			}
			return nil
		}
	}
	offers := func(want string) resource.TestCheckFunc { return offered(duid, want) }
	// updates expects updates of both reservations.
	updates := func(network plancheck.ResourceActionType) resource.ConfigPlanChecks {
		return resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
			plancheck.ExpectResourceAction(address, plancheck.ResourceActionUpdate),
			plancheck.ExpectResourceAction(six, plancheck.ResourceActionUpdate),
			plancheck.ExpectResourceAction("virtfleet_network.this", network),
		}}
	}
	imported := func(of, key string, ignored ...string) resource.TestStep {
		return resource.TestStep{
			ResourceName: of, ImportState: true, ImportStateId: name + "/" + key, ImportStateVerify: true,
			ImportStateVerifyIgnore: ignored,
		}
	}
	ofSix := func(ip string) string { return "<host id='" + duid + "' ip='" + ip + "'/>" }
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: acctest.Factories(t),
		CheckDestroy: func(*terraform.State) error {
			for _, host := range []string{"kvm1", "kvm2"} {
				if all := l.Virsh(t, host, "net-list", "--all", "--name"); strings.Contains(all, name) {
					return fmt.Errorf("host %s still has %s", host, all)
				}
			}
			return nil
		},
		Steps: []resource.TestStep{
			{
				Config: config(`["kvm1"]`, "50", "web"),
				// Clients without a reservation get an address of the range.
				Check: resource.ComposeTestCheckFunc(gets("10.213.8.50 web"), offers("fd00:213:8::50"),
					client("52:54:00:07:01:77", regexp.MustCompile(`lease: 10\.213\.8\.1\d\d , ntp: 10\.213\.8\.7\n`)),
					offered("00:03:00:01:52:54:00:07:01:77", "fd00:213:8::1[0-9a-f]{2}")),
			},
			{ // The network's second host has them, too.
				Config: config("null", "50", "web"), ConfigPlanChecks: updates(plancheck.ResourceActionUpdate),
				Check: resource.ComposeTestCheckFunc(
					defined(both, "name='web' ip='10.213.8.50'", ""), defined(both, ofSix("fd00:213:8::50"), "")),
			},
			{ // The network is created again.
				Taint: []string{"virtfleet_network.this"}, Config: config("null", "50", "web"),
				ConfigPlanChecks: updates(plancheck.ResourceActionDestroyBeforeCreate),
				Check: resource.ComposeTestCheckFunc(
					defined(both, "name='web' ip='10.213.8.50'", ""), defined(both, ofSix("fd00:213:8::50"), "")),
			},
			{ // A reservation is created again before it is destroyed: the destroy leaves that of the new resource.
				Taint:  []string{six},
				Config: strings.TrimSuffix(config("null", "50", "web"), "}") + "lifecycle { create_before_destroy = true }\n}",
				Check:  defined(both, ofSix("fd00:213:8::50"), ""),
			},
			{
				PreConfig: func() {
					l.Virsh(t, "kvm1", "net-update", name, "add", "ip-dhcp-host", "--live", "--config",
						"<host mac='52:54:00:07:01:99' name='spare' ip='10.213.8.99'/>")
				},
				Config: config("null", "51", "www"), ConfigPlanChecks: updates(plancheck.ResourceActionNoop),
				Check: resource.ComposeTestCheckFunc(
					defined(both, "name='www' ip='10.213.8.51'", "10.213.8.50"),
					defined(both, ofSix("fd00:213:8::51"), "fd00:213:8::50"), gets("10.213.8.51 www"),
					offers("fd00:213:8::51")),
			},
			{ // libvirt refuses a name that another reservation has. The host then keeps both.
				Config:      config("null", "51", "spare"),
				ExpectError: regexp.MustCompile(`(?s)Unable to update DHCP reservation.*Host:\s+kvm1`),
			},
			{
				Config: config("null", "51", "www"),
				Check: resource.ComposeTestCheckFunc(defined("kvm1", "name='spare' ip='10.213.8.99'", ""),
					defined("kvm1", "name='www' ip='10.213.8.51'", "name='spare' ip='10.213.8.51'")),
			},
			{ // libvirt refuses an address that another reservation has. The host then keeps the reservation that it has.
				PreConfig: func() {
					l.Virsh(t, "kvm1", "net-update", name, "add", "ip-dhcp-host", "--live", "--config", "--parent-index", "1",
						"<host id='00:03:00:01:52:54:00:07:01:99' ip='fd00:213:8::99'/>")
				},
				Config:      strings.Replace(config("null", "51", "www"), "\"fd00:213:8::51\"", "\"fd00:213:8::99\"", 1),
				ExpectError: regexp.MustCompile(`(?s)Unable to update DHCP reservation.*Host:\s+kvm1`),
			},
			{ // Removed by hand from what is active on one host. Only the apply knows that the other one loses the network.
				PreConfig: func() {
					l.Virsh(t, "kvm1", "net-update", name, "delete", "ip-dhcp-host", "--live",
						"<host mac='"+mac+"' name='www' ip='10.213.8.51'/>")
					l.Virsh(t, "kvm1", "net-update", name, "delete", "ip-dhcp-host", "--live", "--parent-index", "1",
						ofSix("fd00:213:8::51"))
				},
				Config: decided, ConfigPlanChecks: updates(plancheck.ResourceActionUpdate),
				Check: resource.ComposeTestCheckFunc(
					defined("kvm1", "name='www' ip='10.213.8.52'", ""), defined("kvm1", ofSix("fd00:213:8::52"), "")),
			},
			imported(address, mac, "mac"), // It is written in capitals.
			imported(six, duid),
			{ // The network stays, and what was made by hand with it. One that was changed by hand is removed.
				PreConfig: func() {
					l.Virsh(t, "kvm1", "net-update", name, "modify", "ip-dhcp-host", "--live",
						"<host mac='"+mac+"' name='www' ip='10.213.8.53'/>")
				},
				Config: strings.Split(decided, "resource \"virtfleet_network_dhcp_host\"")[0],
				Check: resource.ComposeTestCheckFunc(
					defined("kvm1", "10.213.8.99", mac), defined("kvm1", "<range", duid)),
			},
		},
	})
}
