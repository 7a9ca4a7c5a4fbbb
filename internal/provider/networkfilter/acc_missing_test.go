package networkfilter_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccNetworkFilter_missing: a plan warns of a filter that is made of one which no host has, and with which no VM
// would start. It doesn't warn if the same apply has created the other one before. Both are destroyed in one go.
func TestAccNetworkFilter_missing(t *testing.T) {
	t.Parallel()
	const title = "Network filter not found"
	l := lab.Open(t)
	name := lab.Name(t)
	c := acctest.NewCLI(t)
	filter := func(key, says string) string {
		return fmt.Sprintf("resource \"virtfleet_network_filter\" %[1]q {\n  name = \"%[2]s-%[1]s\"\n  %[3]s\n}\n", key, name,
			says)
	}
	one := filter("one", fmt.Sprintf(`references = ["%s-two"]`, name))
	config := func(text string) {
		t.Helper()
		c.Config(t, acctest.OneHost(l)+text)
	}
	warns := func(when, out string, want bool) {
		t.Helper()
		if strings.Contains(out, title) != want ||
			want && !strings.Contains(out, "refers to filters that hosts don't have: "+name+"-two. Host: kvm1.") {
			t.Errorf("%s: want the warning: %t: %s", when, want, out)
		}
	}
	config(one)
	warns("missing", c.Run(t, "apply"), true)
	if out, empty := c.Empty(t); !empty {
		t.Error(out)
	}
	two := filter("two", `rules = [{ action = "drop", direction = "in", protocol = "tcp" }]`)
	config(strings.Replace(one, "references", "priority = 5\n  references", 1) +
		strings.Replace(two, "rules", "depends_on = [virtfleet_network_filter.one]\n  rules", 1))
	warns("planned after it", c.Run(t, "plan"), true)
	config(strings.Replace(one, "\""+name+"-two\"", "virtfleet_network_filter.two.name", 1) + two)
	warns("created by the same apply", c.Run(t, "apply"), false)
	if out, empty := c.Empty(t); !empty {
		t.Error(out)
	}
	xml := l.Virsh(t, "kvm1", "nwfilter-dumpxml", name+"-one")
	if !strings.Contains(xml, "<filterref filter='"+name+"-two'/>") {
		t.Error(xml)
	}
	c.Run(t, "destroy")
	if all := l.Virsh(t, "kvm1", "nwfilter-list"); strings.Contains(all, name) {
		t.Errorf("left: %s", all)
	}
}
