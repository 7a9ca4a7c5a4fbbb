package evictionpolicy_test

import (
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccEvictionPolicy_selectorNamesWhatIsThere: a new selector with a host that the provider doesn't have fails the
// plan. A host that is removed from the provider later only causes a warning, so that other changes can be applied. A
// name that no VM has is a warning too, and none once the VM is there.
func TestAccEvictionPolicy_selectorNamesWhatIsThere(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	first, second, tf := l.StartHost(t), l.StartHost(t), acctest.NewCLI(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	config := func(hosts []acctest.Host, selector string) {
		tf.Config(t, acctest.Block{Lab: l, Hosts: hosts}.String()+`
resource "virtfleet_eviction_policy" "this" {
  name     = "patient"
  selector = { `+selector+` }
  strategy = "LiveMigrate"
}
`)
	}
	one, both := []acctest.Host{{Of: first}}, []acctest.Host{{Of: first}, {Of: second}}
	hosts := `hosts = ["` + first.Name + `", "` + second.Name + `"]`
	named := hosts + `, names = ["` + name + `"]`

	config(one, hosts)
	if out := tf.Fail(t, "plan"); !strings.Contains(out, "Error: Unknown host") ||
		!strings.Contains(out, `"`+second.Name+`"`) {
		t.Errorf("a host that isn't there isn't refused: %s", out)
	}
	config(both, named)
	if out := tf.Run(t, "apply"); strings.Contains(out, "No virtual machine has this name") {
		t.Errorf("the same apply may create the VM, and it says: %s", out)
	}
	config(one, named)
	out, empty := tf.Empty(t)
	if !empty || !strings.Contains(out, "Warning: Unknown host") || !strings.Contains(out, "selects no VM on them") ||
		!strings.Contains(out, "Warning: No virtual machine has this name") || !strings.Contains(out, `"`+name+`"`) {
		t.Errorf("empty %v, and what selects nothing isn't said: %s", empty, out)
	}
	l.Define(t, first.Name, `<domain type="qemu"><name>`+name+`</name><memory unit="MiB">32</memory>
		<os><type arch="x86_64">hvm</type></os></domain>`)
	config(both, named)
	if out, empty := tf.Empty(t); !empty || strings.Contains(out, "Unknown host") ||
		strings.Contains(out, "No virtual machine has this name") {
		t.Errorf("empty %v, and all is there: %s", empty, out)
	}

	tf.Run(t, "destroy")
	for _, host := range both {
		if out := l.Secrets(t, host.Of.Name); strings.Contains(out, "virtfleet:") {
			t.Errorf("left on host %s: %s", host.Of.Name, out)
		}
	}
}
