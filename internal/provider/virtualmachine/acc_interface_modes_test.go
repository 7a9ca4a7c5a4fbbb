package virtualmachine_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// sharing makes two devices of a host, each with a peer in a namespace: one that is shared with a macvlan device in
// another namespace, and one for a guest alone.
const sharing = `
shared=$1 alone=$2 beyond=$3 sibling=$4
ip netns add $beyond
ip netns add $sibling
ip link add $shared type veth peer name shared netns $beyond
ip link add $alone type veth peer name alone netns $beyond
ip link set $shared up
ip link set $alone up
ip link add link $shared name sibling netns $sibling type macvlan mode bridge
for device in shared alone; do ip -n $beyond link set $device up; done
ip -n $sibling link set sibling up
for network in 1 2; do
	ip -n $beyond addr add 198.18.$network.1/24 dev shared
	ip -n $sibling addr add 198.18.$network.9/24 dev sibling
done
ip -n $beyond addr add 198.18.3.1/24 dev alone`

// TestAccInterface_macvtapModes: interfaces of networks that share a device of the host reach what is beyond the
// device, and in the mode bridge, other users of the device, too: in the mode private, they don't. In the mode
// passthrough, a guest has the device for itself.
func TestAccInterface_macvtapModes(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	const host = "kvm1"
	name := lab.Name(t)
	key := name[len(name)-6:]
	shared, alone, beyond, sibling := "ms"+key, "ma"+key, "mb-"+key, "mn-"+key
	l.RemoveDomain(t, name)
	l.Run(t, host, "sh", "-ec", sharing, "sh", shared, alone, beyond, sibling)
	macs := map[string]string{
		"bridge": "52:54:00:ad:00:21", "private": "52:54:00:ad:00:22", "passthrough": "52:54:00:ad:00:23",
	}
	var networks, interfaces strings.Builder
	for mode, mac := range macs {
		device := shared
		if mode == "passthrough" {
			device = alone
		}
		fmt.Fprintf(&networks, `
resource "virtfleet_network" %[1]q {
  name    = "%[2]s-%[1]s"
  hosts   = [%[3]q]
  forward = { mode = %[1]q, devices = [%[4]q] }
}
`, mode, name, host, device)
		fmt.Fprintf(&interfaces, "%[1]s = { network = virtfleet_network.%[1]s.name, mac = %[2]q }\n", mode, mac)
	}
	tf := acctest.NewCLI(t)
	tf.Config(t, acctest.OneHost(l)+networks.String()+guest(l, name).with(talking).with(hcl{
		"host": quote(host), "interfaces": "{\n" + interfaces.String() + "}",
	}).String())
	tf.Run(t, "apply")
	noChanges(t, tf)
	taps := l.Run(t, host, "ip", "-d", "-o", "link", "show", "type", "macvtap")
	for mode, mac := range macs {
		want := "mode " + strings.Replace(mode, "passthrough", "passthru", 1)
		if tap := linesOf(taps, mac); !strings.Contains(tap, want) {
			t.Errorf("the device of the interface %s isn't in %s:\n%s", mode, want, taps)
		}
	}
	// The DHCP clients of the guest remove addresses that are there when they begin.
	says := func(script string) string { return outputInGuest(t, l, host, name, script) }
	says(fmt.Sprintf(`network=1
for mac in %s %s %s; do
	device=$(dirname $(grep -l $mac /sys/class/net/*/address) | xargs basename)
	until grep -q discover /run/dhcp.$device; do sleep 0.2; done
	ip addr add 198.18.$network.2/24 dev $device
	network=$((network + 1))
done`, macs["bridge"], macs["private"], macs["passthrough"]))
	for _, address := range []string{"198.18.1.1", "198.18.1.9", "198.18.2.1", "198.18.3.1"} {
		says(fmt.Sprintf("until ping -c 1 -W 2 %s; do :; done", address))
	}
	if got := says("ping -c 2 -W 1 198.18.2.9 >/dev/null && echo answered"); got != "" {
		t.Error("in the mode private, the guest reaches another user of the device")
	}
	destroyAndCheck(t, l, tf, name)
	if left := l.Virsh(t, host, "net-list", "--all", "--name"); strings.Contains(left, name) {
		t.Errorf("the host still has %s", left)
	}
	l.Run(t, host, "sh", "-ec", "ip link del $1; ip link del $2; ip netns del $3; ip netns del $4", "sh", shared, alone,
		beyond, sibling)
}
