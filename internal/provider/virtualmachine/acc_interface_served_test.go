package virtualmachine_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccInterface_served: a guest in a network of IPv4 and IPv6 gets an address of each: one that is reserved for it,
// and one that it makes of the prefix that the network advertises. A name that the running network is given is known
// in the guest, which stays connected, with the lease that it has.
func TestAccInterface_served(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	tf := acctest.NewCLI(t)
	const mac = "52:54:00:ad:00:21"
	const four, six = "10.219.1.50/24", "fd00:219:1:0:5054:ff:fead:21/64"
	config := vmWithKernelWords(l, name, "ipv6").with(talking).with(hcl{
		"host": quote(interfaceHost), "interfaces": fmt.Sprintf(
			`{ lan = { network = virtfleet_network_dhcp_host.this.network, mac = %q } }`, mac),
	})
	apply := func(names string) {
		t.Helper()
		tf.Config(t, acctest.OneHost(l)+fmt.Sprintf(`
resource "virtfleet_network" "lan" {
  name   = %q
  domain = { name = "served.test", local_only = true }
  dns    = { hosts = [%s] }
  ips = [
    { address = "10.219.1.1/24", dhcp = { ranges = [{ start = "10.219.1.100", end = "10.219.1.199" }] } },
    { address = "fd00:219:1::1/64" },
  ]
}
resource "virtfleet_network_dhcp_host" "this" {
  network = virtfleet_network.lan.name
  mac     = %q
  ip      = "10.219.1.50"
}
`, name, names, mac)+config.String())
		tf.Run(t, "apply")
	}
	addresses := func() string {
		return l.Virsh(t, interfaceHost, "domifaddr", name, "--source", "agent", "--full")
	}
	says := func(script string) string { return outputInGuest(t, l, interfaceHost, name, script) }

	apply(`{ ip = "10.219.1.1", names = ["gw.served.test"] }`)
	lab.Await(t, "an address of IPv4 and one of IPv6", func() bool {
		all := addresses()
		return strings.Contains(all, four) && strings.Contains(all, six)
	})
	says("until ping6 -c 1 -W 5 fd00:219:1::1; do :; done")
	tf.Run(t, "apply", "-refresh-only")
	noChanges(t, tf)
	state, _ := tf.State(t, address)
	known := fmt.Sprint(acctest.ValueAt(state, "ip_addresses"))
	for _, want := range []string{four, six} {
		if want = strings.Split(want, "/")[0]; !strings.Contains(known, want) {
			t.Errorf("%s isn't in the state, which has %s", want, known)
		}
	}
	process := &started{l: l, host: interfaceHost, name: name}
	if err := process.same(t)(nil); err != nil {
		t.Fatal(err)
	}
	leases := func() string { return l.Virsh(t, interfaceHost, "net-dhcp-leases", name) }
	lease, before := leases(), addresses()
	if !strings.Contains(lease, "10.219.1.50") {
		t.Errorf("the network's leases are\n%s", lease)
	}
	const asked = "busybox nslookup -type=a db.served.test 10.219.1.1"
	if got := says(asked); !strings.Contains(got, "NXDOMAIN") {
		t.Errorf("about a name that the network isn't given, the guest is told %s", got)
	}

	apply(`{ ip = "10.219.1.1", names = ["gw.served.test"] }, { ip = "10.219.1.9", names = ["db.served.test"] }`)
	noChanges(t, tf)
	says("until " + asked + " | grep -q 10.219.1.9; do :; done") // The server reads it a moment after it is told.
	for _, ping := range []string{"ping -c 1 -W 5 10.219.1.1", "ping6 -c 1 -W 5 fd00:219:1::1"} {
		if got := says(ping + " >/dev/null && echo reached"); got != "reached" {
			t.Errorf("the guest isn't answered: %s", ping)
		}
	}
	if err := process.same(t)(nil); err != nil {
		t.Error(err)
	}
	if now := leases(); now != lease {
		t.Errorf("the guest's lease was\n%s\nand is\n%s", lease, now)
	}
	if now := addresses(); now != before {
		t.Errorf("the guest had the addresses\n%s\nand has\n%s", before, now)
	}
	destroyAndCheck(t, l, tf, name)
	if l.Has(t, interfaceHost, "net-list", name) {
		t.Error("the network is still there")
	}
}
