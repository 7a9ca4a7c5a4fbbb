package virtualmachine_test

import (
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccVirtualMachine_onceIsCompleted: the provider is killed while it waits for a guest that runs once, and that
// ends before the next apply. The guest isn't run again, and what is declared by then is applied: the plan that follows
// is empty.
func TestAccVirtualMachine_onceIsCompleted(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	tf := acctest.NewCLI(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	const host = "kvm1"
	vm := idleVM(l, name).with(hcl{
		"host": quote(host), "run_strategy": quote("Once"), "guest_agent": `{ enabled = true }`,
		"wait_for": `{ guest_agent = true, timeout = "5m" }`, "labels": `{ app = "web" }`,
	})
	tf.Config(t, acctest.OneHost(l)+vm.String())
	apply := tf.Start(t, "apply")
	waitWhileRunning(t, "the VM to run", apply, func() bool { return onHosts(t, l, name, "running", "")(nil) == nil })
	if err := apply.KillProvider(); err != nil {
		t.Fatal(err)
	}
	if out, err := apply.Wait(); err == nil {
		t.Fatalf("the apply continued:\n%s", out)
	}
	id := uuidOf(t, l, host, name)
	l.Virsh(t, host, "destroy", name)

	tf.Config(t, acctest.OneHost(l)+vm.with(hcl{
		"labels": `{ app = "db" }`, "deletion_protection": "false",
		"placement": `{ anti_affinity = { labels = { app = "x" }, required = true } }`,
	}).String())
	expect(t, tf.Run(t, "apply"), "Warning: Unable to complete virtual machine",
		`with run_strategy "Once" it isn't started a second time`, "virsh start "+name)
	if state, tainted := tf.State(t, address); state["id"] != id || tainted {
		t.Errorf("VM %v, tainted %v; want %s", state["id"], tainted, id)
	}
	if err := onHosts(t, l, name, "shut off", "")(nil); err != nil {
		t.Error(err)
	}
	noChanges(t, tf)
	destroyAndCheck(t, l, tf, name)
}
