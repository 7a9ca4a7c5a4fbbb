package network_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccNetwork_imported: a network that was imported, and never applied, is compared on each host with the first one,
// in every plan, without the bridges, whose names libvirt chooses. One apply makes them alike. No plan removes the
// reservations, which the configuration leaves to others.
func TestAccNetwork_imported(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	define := func(host, bridge, names string) {
		t.Helper()
		xml := fmt.Sprintf("<network><name>%s</name><forward mode='nat'/><bridge name='%s'/><dns><host ip='10.213.9.1'>"+
			"<hostname>%s</hostname></host></dns><ip address='10.213.9.1' prefix='24'><dhcp><range start='10.213.9.50' "+
			"end='10.213.9.60'/><host mac='52:54:00:09:00:01' ip='10.213.9.20'/></dhcp></ip></network>",
			s.name, bridge, names)
		s.l.Run(t, host, "sh", "-c", fmt.Sprintf("cat >/tmp/%[1]s.xml <<'X'\n%[2]s\nX\n"+
			"virsh -q net-define /tmp/%[1]s.xml && rm /tmp/%[1]s.xml && "+
			"virsh -q net-start %[1]s && virsh -q net-autostart %[1]s", s.name, xml))
	}
	define("kvm1", s.bridge, "gw")
	define("kvm2", s.bridge+"b", "gw")
	t.Cleanup(func() {
		for _, host := range []string{"kvm1", "kvm2"} {
			_, _ = s.l.TryVirsh(t, host, "net-destroy", s.name)
			_, _ = s.l.TryVirsh(t, host, "net-undefine", s.name)
		}
	})
	c := acctest.NewCLI(t)
	c.Config(t, fmt.Sprintf(`%s
resource "virtfleet_network" "this" {
  name = %q
  dns  = { hosts = [{ ip = "10.213.9.1", names = ["gw"] }] }
  ips  = [{ address = "10.213.9.1/24", dhcp = { ranges = [{ start = "10.213.9.50", end = "10.213.9.60" }] } }]
}
`, s.block, s.name))
	c.Run(t, "import", address, s.name)
	if out, empty := c.Empty(t); !empty {
		t.Errorf("after the import: %s", out)
	}
	s.l.Virsh(t, "kvm2", "net-update", s.name, "add", "dns-host", "--live", "--config",
		"<host ip='10.213.9.7'><hostname>byhand</hostname></host>")
	for range 2 { // Also after it was read once more.
		out, empty := c.Empty(t)
		if words := strings.Join(strings.Fields(out), " "); empty ||
			!strings.Contains(words, `"kvm2" = "active, differs in dns" -> "active"`) {
			t.Errorf("after a change by hand on kvm2: %s", out)
		}
		c.Run(t, "refresh")
	}
	c.Run(t, "apply")
	if xml := s.l.Virsh(t, "kvm2", "net-dumpxml", s.name); strings.Contains(xml, "byhand") ||
		!strings.Contains(xml, s.bridge+"b") {
		t.Errorf("kvm2 has %s", xml)
	}
	// Reservations aren't declared: what was imported stays, and others may come.
	s.l.Virsh(t, "kvm2", "net-update", s.name, "add", "ip-dhcp-host", "--live", "--config",
		"<host mac='52:54:00:09:00:02' ip='10.213.9.21'/>")
	if out, empty := c.Empty(t); !empty {
		t.Errorf("after the apply: %s", out)
	}
	for host, reservations := range map[string]int{"kvm1": 1, "kvm2": 2} {
		if xml := s.l.Virsh(t, host, "net-dumpxml", s.name); strings.Count(xml, "52:54:00:09:00:0") != reservations {
			t.Errorf("%s has %s", host, xml)
		}
	}
	c.Run(t, "destroy")
	for _, host := range []string{"kvm1", "kvm2"} {
		if all := s.l.Virsh(t, host, "net-list", "--all", "--name"); strings.Contains(all, s.name) {
			t.Errorf("it is still on host %s", host)
		}
	}
}
