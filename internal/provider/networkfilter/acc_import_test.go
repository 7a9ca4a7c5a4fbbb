package networkfilter_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccNetworkFilter_imported: a filter that was imported, and never applied, is compared on each host with the first
// one, in every plan.
func TestAccNetworkFilter_imported(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	define := func(host, port string) {
		t.Helper()
		l.Run(t, host, "sh", "-c", fmt.Sprintf("virsh -q nwfilter-dumpxml %[1]s >/tmp/%[1]s.xml 2>/dev/null || "+
			"echo \"<filter name='%[1]s'/>\" >/tmp/%[1]s.xml; u=$(grep -o '<uuid>.*</uuid>' /tmp/%[1]s.xml); echo \""+
			"<filter name='%[1]s' chain='root'>$u<rule action='accept' direction='in'><tcp dstportstart='%[2]s'/></rule>"+
			"</filter>\" >/tmp/%[1]s.xml && virsh -q nwfilter-define /tmp/%[1]s.xml && rm /tmp/%[1]s.xml", name, port))
	}
	filter := fmt.Sprintf(`%s
resource "virtfleet_network_filter" "this" {
  name  = %q
  rules = [{ action = "accept", direction = "in", protocol = "tcp", match = { dstportstart = "22" } }]
}
`, acctest.Config(l), name)
	c := acctest.NewCLI(t)
	differs := func(when string) {
		t.Helper()
		out, empty := c.Empty(t)
		if words := strings.Join(strings.Fields(out), " "); empty || !strings.Contains(words, `"kvm2" = "differs"`) {
			t.Errorf("%s: %s", when, out)
		}
	}
	define("kvm1", "22")
	define("kvm2", "23")
	t.Cleanup(func() {
		for _, host := range []string{"kvm1", "kvm2"} {
			_, _ = l.TryVirsh(t, host, "nwfilter-undefine", name)
		}
	})
	c.Config(t, filter)
	out := c.Run(t, "plan")
	if words := strings.Join(strings.Fields(out), " "); strings.Count(out, "Warning: Unable to create") != 1 ||
		!strings.Contains(words, "each of these hosts has the network filter") || !strings.Contains(out, "Host: kvm1, kvm2") {
		t.Errorf("the plan of a new one says: %s", out)
	}
	c.Run(t, "import", "virtfleet_network_filter.this", name)
	differs("after the import")
	c.Run(t, "refresh")
	differs("after another look")
	c.Run(t, "apply")
	if xml := l.Virsh(t, "kvm2", "nwfilter-dumpxml", name); !strings.Contains(xml, "dstportstart='22'") {
		t.Errorf("kvm2 has %s", xml)
	}
	if out, empty := c.Empty(t); !empty {
		t.Errorf("after the apply: %s", out)
	}

	// Imported with the definition itself as the configuration, it needs no apply, and is compared nevertheless.
	c.Run(t, "state", "rm", "virtfleet_network_filter.this")
	c.Config(t, acctest.Config(l)+fmt.Sprintf("import {\n  to = virtfleet_network_filter.this\n  id = %q\n}\n", name))
	c.Run(t, "plan", "-generate-config-out=filter.tf")
	c.Run(t, "apply")
	if out, empty := c.Empty(t); !empty {
		t.Errorf("after the import with generated configuration: %s", out)
	}
	define("kvm2", "24")
	differs("after a change by hand")
	c.Run(t, "destroy")
	for _, host := range []string{"kvm1", "kvm2"} {
		if all := l.Virsh(t, host, "nwfilter-list"); strings.Contains(all, name) {
			t.Errorf("it is still on host %s", host)
		}
	}
}
