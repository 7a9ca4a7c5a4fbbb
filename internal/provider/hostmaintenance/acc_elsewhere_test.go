package hostmaintenance_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccHostMaintenance_offElsewhere: a host is switched off for its maintenance, and a VM of another host is found
// off. It isn't started, and the plan names the host that the VM is on, and says what helps this VM.
func TestAccHostMaintenance_offElsewhere(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	config := p.maintenance("") +
		p.managed(t, "there", fmt.Sprintf("memory = { size = \"32Mi\" }\n  host = %q", p.to.Name))
	p.tf.Config(t, p.block()+config)
	p.tf.Run(t, "apply")
	p.l.Virsh(t, p.to.Name, "destroy", p.prefix+"-there")

	p.tf.Config(t, acctest.Block{Lab: p.l, Hosts: []acctest.Host{
		{Name: p.from.Name, URI: "qemu+ssh://root@" + p.from.Address + ":9/system"}, p.host(p.to),
	}}.String()+config)
	out := unwrapped(p.tf.Fail(t, "plan"))
	for _, want := range []string{
		fmt.Sprintf("may be running on %q", p.from.Name), fmt.Sprintf("It is off on host %q.", p.to.Name),
		fmt.Sprintf("Host %q is under maintenance", p.from.Name), "Switch it on, then plan again",
		fmt.Sprintf("such as this one on host %q", p.to.Name),
	} {
		if !strings.Contains(out, want) {
			t.Errorf("it doesn't say %q: %s", want, out)
		}
	}
	if strings.Contains(out, "move_stopped") {
		t.Errorf("it advises what helps other VMs: %s", out)
	}

	p.tf.Config(t, p.block()+config)
	p.tf.Run(t, "apply")
	p.expect(t, map[string]string{"there": p.to.Name})
	if out, empty := p.tf.Empty(t); !empty {
		t.Errorf("left to do:\n%s", out)
	}
	p.tf.Run(t, "destroy")
	p.expect(t, map[string]string{"there": ""})
	p.nothingLeft(t)
}
