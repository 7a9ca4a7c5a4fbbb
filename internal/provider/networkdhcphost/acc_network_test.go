package networkdhcphost_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccNetworkDHCPHost_otherSubnet: a plan is refused that gives a network other addresses and leaves a reservation
// outside them, because the network would lose it. One apply changes the network, the reservation's address and MAC
// address, and the VM's interface.
func TestAccNetworkDHCPHost_otherSubnet(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	const before, after = "52:54:00:07:08:01", "52:54:00:07:08:02"
	l.RemoveDomain(t, name)
	c := acctest.NewCLI(t)
	config := func(subnet, ip, mac string) {
		t.Helper()
		c.Config(t, acctest.OneHost(l)+fmt.Sprintf(`
resource "virtfleet_network" "this" {
  name   = %[1]q
  bridge = "vg%[2]s"
  ips    = [{ address = "%[3]s.1/24", dhcp = { ranges = [{ start = "%[3]s.100", end = "%[3]s.199" }] } }]
}
resource "virtfleet_network_dhcp_host" "web" {
  network = virtfleet_network.this.name
  mac     = %[5]q
  ip      = %[4]q
}
resource "virtfleet_virtual_machine" "web" {
  name         = %[1]q
  memory       = { size = "16Mi" }
  run_strategy = "Halted"
  interfaces   = { lan = { network = virtfleet_network.this.name, mac = %[5]q } }
}
`, name, name[len(name)-6:], subnet, ip, mac))
	}
	has := func(when, ip, mac string) {
		t.Helper()
		for _, flags := range [][]string{nil, {"--inactive"}} {
			xml := l.Virsh(t, "kvm1", append([]string{"net-dumpxml", name}, flags...)...)
			if want := "<host mac='" + mac + "' ip='" + ip + "'/>"; strings.Count(xml, "<host mac=") != 1 ||
				!strings.Contains(xml, want) {
				t.Errorf("%s: want %s in %s", when, want, xml)
			}
		}
		if xml := l.Virsh(t, "kvm1", "dumpxml", name); !strings.Contains(xml, "<mac address='"+mac+"'/>") {
			t.Errorf("%s: want %s in %s", when, mac, xml)
		}
		if out, empty := c.Empty(t); !empty {
			t.Errorf("%s: %s", when, out)
		}
	}
	config("10.213.22", "10.213.22.50", before)
	c.Run(t, "apply")
	has("created", "10.213.22.50", before)
	config("10.213.23", "10.213.22.50", before)
	if out := c.Fail(t, "apply"); !strings.Contains(out, "has no address range that 10.213.22.50 is in") {
		t.Error(out)
	}
	config("10.213.22", "10.213.22.50", before)
	has("refused", "10.213.22.50", before)
	config("10.213.23", "10.213.23.60", after)
	l.Virsh(t, "kvm1", "net-update", name, "add", "ip-dhcp-host", "<host mac='52:54:00:00:07:77' ip='10.213.22.77'/>",
		"--live", "--config")
	if out := c.Run(t, "apply"); !strings.Contains(out, "Reservations are removed") ||
		!strings.Contains(out, `10.213.22.77, mac "52:54:00:00:07:77" (host kvm1)`) {
		t.Errorf("another one's reservation: %s", out)
	}
	has("all of it changed", "10.213.23.60", after)
	c.Run(t, "destroy")
	if l.Has(t, "kvm1", "net-list", name) {
		t.Error("the network is still there")
	}
}
