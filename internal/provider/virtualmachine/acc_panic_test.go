package virtualmachine_test

import (
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccPower_afterPanic: a guest that has panicked and is kept for its autopsy still has its process, its memory and
// its disks. Always ends that and starts the VM with its new definition, whose devices such a guest can't release.
// Halted ends it, too.
func TestAccPower_afterPanic(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	tf := acctest.NewCLI(t)
	config := func(strategy, vcpus, interfaces string) {
		tf.Config(t, acctest.OneHost(l)+vmWithKernelWords(l, name, "panic").with(talking).with(hcl{
			"host": quote("kvm1"), "run_strategy": quote(strategy), "devices": `{ panic = { model = "isa" } }`,
			"platform": `{ events = { on_crash = "preserve" } }`, "cpu": "{ vcpus = " + vcpus + " }",
			"interfaces": interfaces,
		}).String())
	}
	panics := func() {
		t.Helper()
		l.AwaitAgent(t, "kvm1", name)
		// The agent answers before the driver of the panic device is loaded, and has found the device.
		inGuest(t, l, "kvm1", name, "until [ \"$(cat /sys/module/pvpanic_mmio/initstate)\" = live ]; do sleep 0.1; done; "+
			"echo c >/proc/sysrq-trigger")
		awaitState(t, l, "kvm1", name, "crashed (panicked)")
	}
	config("Once", "1", `{ lan = { bridge = "br-lab" } }`)
	tf.Run(t, "apply")
	panics()
	powerPlan(t, tf, "Failed", "Panicked", "no-op", "Failed")

	config("Always", "2", "{}")
	powerPlan(t, tf, "Failed", "Panicked", "update", "Running")
	tf.Run(t, "apply", "planned")
	noChanges(t, tf)
	if live := l.Virsh(t, "kvm1", "dumpxml", name); !strings.Contains(live, ">2</vcpu>") ||
		strings.Contains(live, "<interface") {
		t.Errorf("the VM was started with the definition of before:\n%s", live)
	}

	panics()
	config("Halted", "2", "{}")
	powerPlan(t, tf, "Failed", "Panicked", "update", "Stopped")
	tf.Run(t, "apply", "planned")
	awaitState(t, l, "kvm1", name, "shut off (destroyed)")
	noChanges(t, tf)
	destroyAndCheck(t, l, tf, name)
}
