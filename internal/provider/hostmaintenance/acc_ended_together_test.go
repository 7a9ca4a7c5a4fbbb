package hostmaintenance_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccHostMaintenance_endedTogether: a VM left its host, and then the host that it had come to. A maintenance that
// ends while the VM isn't where it had moved it to doesn't bring it back, and says so.
func TestAccHostMaintenance_endedTogether(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	third := p.l.StartHost(t)
	name := p.prefix + "-a"
	p.l.RemoveDomain(t, name)
	p.l.Define(t, p.from.Name, fmt.Sprintf(`<domain type="qemu"><name>%s</name><memory unit="MiB">32</memory>
		<os><type arch="x86_64">hvm</type></os></domain>`, name))
	p.l.Virsh(t, p.from.Name, "start", name)
	block := acctest.Block{Lab: p.l, Hosts: []acctest.Host{p.host(p.from), p.host(p.to), p.host(third)}}.String()
	maintained := func(hosts ...string) {
		t.Helper()
		config := block
		for _, h := range hosts {
			config += fmt.Sprintf("resource \"virtfleet_host_maintenance\" %q {\n  host = %q\n  restore = true\n}\n", h, h)
		}
		p.tf.Config(t, config)
	}
	where := func() string {
		t.Helper()
		for _, h := range []*lab.Host{p.from, p.to, third} {
			if strings.Contains(p.l.Virsh(t, h.Name, "list", "--name"), name) {
				return h.Name
			}
		}
		return ""
	}

	// The maintenances end one after the other, that of the first host before the other. Then both end in one apply, where
	// either may be first: whatever isn't brought back is said.
	for _, together := range []bool{false, true} {
		maintained(p.from.Name)
		p.tf.Run(t, "apply")
		second := where()
		maintained(p.from.Name, second)
		p.tf.Run(t, "apply")
		last := where()
		if last == second || last == p.from.Name {
			t.Fatalf("it went from %s to %s, and then to %s", p.from.Name, second, last)
		}
		if together {
			maintained()
		} else {
			maintained(second)
		}
		out := unwrapped(p.tf.Run(t, "apply"))
		stays := fmt.Sprintf("virtual machine %q was moved to host %q and is on host %q by now, where it stays", name,
			second, last)
		told := strings.Contains(out, "Warning: Not all virtual machines were brought back") && strings.Contains(out, stays)
		if is := where(); told == (is == p.from.Name) || !together && is != last {
			t.Errorf("ended together %v, it is on %s, and the apply says: %s", together, is, out)
		}
		maintained()
		p.tf.Run(t, "apply")
		if is := where(); is != second && is != p.from.Name {
			t.Errorf("ended together %v, it is on %s in the end", together, is)
		}
		if out, empty := p.tf.Empty(t); !empty {
			t.Errorf("left to do:\n%s", out)
		}
		if is := where(); is != p.from.Name {
			if err := p.l.Host(is).Migrate(t.Context(), name, p.from); err != nil {
				t.Fatal(err)
			}
		}
	}
}
