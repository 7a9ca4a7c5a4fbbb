package virtualmachine_test

import (
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccPower_haltedAfterPanic: a guest that has panicked and is kept for its autopsy still has its process, its
// memory and its disks. Halted ends it.
func TestAccPower_haltedAfterPanic(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	tf := acctest.NewCLI(t)
	config := func(strategy string) {
		tf.Config(t, acctest.OneHost(l)+vmWithKernelWords(l, name, "panic").with(talking).with(hcl{
			"host": quote("kvm1"), "run_strategy": quote(strategy), "devices": `{ panic = { model = "isa" } }`,
			"platform": `{ events = { on_crash = "preserve" } }`,
		}).String())
	}
	config("Once")
	tf.Run(t, "apply")
	l.AwaitAgent(t, "kvm1", name)
	// The agent answers before the driver of the panic device is loaded, and has found the device.
	inGuest(t, l, "kvm1", name, "until [ \"$(cat /sys/module/pvpanic_mmio/initstate)\" = live ]; do sleep 0.1; done; "+
		"echo c >/proc/sysrq-trigger")
	awaitState(t, l, "kvm1", name, "crashed (panicked)")
	powerPlan(t, tf, "Failed", "Panicked", "no-op", "Failed")

	config("Halted")
	powerPlan(t, tf, "Failed", "Panicked", "update", "Stopped")
	tf.Run(t, "apply", "planned")
	awaitState(t, l, "kvm1", name, "shut off (destroyed)")
	noChanges(t, tf)
	destroyAndCheck(t, l, tf, name)
}
