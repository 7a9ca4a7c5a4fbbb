package virtualmachine_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccInterface_macvtap: a guest shares the host's network device, by itself and through a network, and talks to the
// other hosts over both. It moves to another host, which has a device of the same name, and then talks over that one:
// macvtap doesn't connect a guest with the host whose device it shares, so the host that it can't reach is the one it
// runs on.
func TestAccInterface_macvtap(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	tf := acctest.NewCLI(t)
	const own, shared = "52:54:00:ad:00:11", "52:54:00:ad:00:12"
	resources := fmt.Sprintf(`
resource "virtfleet_network" "shared" {
  name    = %q
  forward = { mode = "bridge", devices = ["eth0"] }
}
`, name)
	config := guest(l, name).with(talking).with(hcl{"interfaces": fmt.Sprintf(`{
    own    = { direct = { device = "eth0", mode = "bridge" }, mac = %q }
    shared = { network = virtfleet_network.shared.name, mac = %q }
  }`, own, shared)})
	address := func(host string) string { return l.Host(host).Address }
	subnet := address("kvm1")[:strings.LastIndex(address("kvm1"), ".")]
	// answered says which hosts answer the guest over both of its interfaces.
	answered := func(at string, wanted, silent string) {
		t.Helper()
		for _, mac := range []string{own, shared} {
			over := "device=$(dirname $(grep -l " + mac + " /sys/class/net/*/address) | xargs basename)\n"
			outputInGuest(t, l, at, name, fmt.Sprintf("%suntil ping -c 1 -W 2 -I $device %s; do :; done", over, address(wanted)))
			if got := outputInGuest(t, l, at, name, fmt.Sprintf("%sping -c 1 -W 1 -I $device %s >/dev/null && echo answered",
				over, address(silent))); got != "" {
				t.Errorf("on %s the guest reaches %s over %s, which it shares a device with", at, silent, mac)
			}
		}
	}
	apply := func(host string) {
		t.Helper()
		tf.Config(t, providerBlock(l, "")+resources+config.with(hcl{"host": quote(host)}).String())
		tf.Run(t, "apply")
		noChanges(t, tf)
	}
	apply("kvm1")
	// Its DHCP clients have begun before it gets its addresses, because they remove those that are there. Each interface
	// answers for its own address only.
	outputInGuest(t, l, "kvm1", name, fmt.Sprintf(`echo 1 >/proc/sys/net/ipv4/conf/all/arp_ignore
last=250
for mac in %s %s; do
	device=$(dirname $(grep -l $mac /sys/class/net/*/address) | xargs basename)
	until grep -q discover /run/dhcp.$device; do sleep 0.2; done
	ip addr add %s.$last/24 dev $device
	last=$((last + 1))
done
echo kept >/run/before-the-move`, own, shared, subnet))
	answered("kvm1", "kvm2", "kvm1")

	apply("kvm2")
	if err := onHosts(t, l, name, "", "running")(nil); err != nil {
		t.Fatal(err)
	}
	if got := outputInGuest(t, l, "kvm2", name, "cat /run/before-the-move"); got != "kept" {
		t.Errorf("the guest was started again: its file says %q", got)
	}
	answered("kvm2", "kvm1", "kvm2")
	if taps := l.Run(t, "kvm1", "ip", "-o", "link", "show", "type", "macvtap"); strings.Contains(taps, own) ||
		strings.Contains(taps, shared) {
		t.Errorf("kvm1 still has a device of the guest:\n%s", taps)
	}
	destroyAndCheck(t, l, tf, name)
	for _, host := range []string{"kvm1", "kvm2"} {
		if l.Has(t, host, "net-list", name) {
			t.Errorf("%s still has the network", host)
		}
	}
}
