package hostmaintenance_test

import (
	"fmt"
	"strings"
	"testing"
)

// TestAccHostMaintenance_offAndMoved: a change of host, of a VM that is off. If a user has turned the VM off since the
// plan, the apply doesn't move it before it refuses to start it. A VM that a maintenance of its host has turned off is
// moved and started, as the plan says.
func TestAccHostMaintenance_offAndMoved(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	on := func(host string) string {
		return p.managed(t, "off", fmt.Sprintf("memory = { size = \"32Mi\" }\n  eviction_strategy = \"None\"\n"+
			"  host = %q", host))
	}
	p.tf.Config(t, p.block()+on(p.from.Name))
	p.tf.Run(t, "apply")

	p.tf.Config(t, p.block()+on(p.to.Name))
	p.tf.Plan(t)
	p.l.Virsh(t, p.from.Name, "destroy", p.prefix+"-off")
	if out := unwrapped(p.tf.Fail(t, "apply", "planned")); !strings.Contains(out, "which was not planned") {
		t.Errorf("it isn't said why: %s", out)
	}
	if out := p.l.Virsh(t, p.from.Name, "dumpxml", p.prefix+"-off"); strings.Contains(out, "<virtfleet:migration ") {
		t.Errorf("it was moved: %s", out)
	}

	p.tf.Config(t, p.block()+on(p.from.Name))
	p.tf.Run(t, "apply")
	closed := p.maintenance("restore = true")
	p.tf.Config(t, p.block()+closed+on(p.from.Name))
	p.tf.Run(t, "apply")
	p.expect(t, map[string]string{"off": ""})
	p.tf.Config(t, p.block()+closed+on(p.to.Name))
	p.tf.Run(t, "apply")
	if got := p.howRuns(t, "off"); got != p.to.Name+" running (booted)" {
		t.Errorf("it is %s", got)
	}
	if out, empty := p.tf.Empty(t); !empty {
		t.Errorf("left to do:\n%s", out)
	}
	p.tf.Run(t, "destroy")
	p.expect(t, map[string]string{"off": ""})
	p.nothingLeft(t)
}
