package virtualmachine_test

import (
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccCPUMode_typeOfHost: a VM that declares no type is planned with the type that it gets on its host. With KVM it
// can have the host's CPU; without KVM, or with the type qemu, the plan refuses that at cpu.mode.
func TestAccCPUMode_typeOfHost(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	tf := acctest.NewCLI(t)
	config := hcl{
		"name": quote(name), "memory": `{ size = "64Mi" }`, "run_strategy": quote("Halted"), "host": quote("kvm1"),
		"cpu": `{ mode = "host-passthrough" }`,
	}
	refused := func(change hcl) {
		t.Helper()
		tf.Config(t, acctest.OneHost(l)+config.with(change).String())
		expect(t, tf.Fail(t, "plan"), "because of cpu.mode", "CPU mode 'host-passthrough' for x86_64 qemu domain")
	}
	refused(hcl{"type": quote("qemu")})
	if !strings.Contains(l.Virsh(t, "kvm1", "capabilities"), "<domain type='kvm'/>") {
		refused(nil)
		return
	}
	tf.Config(t, acctest.OneHost(l)+config.String())
	tf.Run(t, "apply")
	if xml := l.Virsh(t, "kvm1", "dumpxml", "--inactive", name); !strings.Contains(xml, "<domain type='kvm'") ||
		!strings.Contains(xml, "<cpu mode='host-passthrough'") {
		t.Errorf("it is\n%s", xml)
	}
	noChanges(t, tf)
	destroyAndCheck(t, l, tf, name)
}
