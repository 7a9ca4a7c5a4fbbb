package virtualmachine_test

import (
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccVirtualMachine_moveTooLate: Ctrl-C in post-copy can't abort the migration any more. A warning says where the
// VM is, and so does the state.
func TestAccVirtualMachine_moveTooLate(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	tf := acctest.NewCLI(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	boot := &boots{l: l, name: name, disk: true}
	vm := vmWithKernelWords(l, name, "dirty=16").with(talking).with(diskOnBothHosts(t, l, name)).with(hcl{
		"termination_grace_period": quote("0s"),
	})
	config := func(host string) {
		tf.Config(t, providerBlock(l, `migration_options = {
    bandwidth = "2Mi", completion_timeout_per_gib = "2s", allow_post_copy = true
  }`)+vm.with(hcl{"host": quote(host)}).String())
	}
	config("kvm1")
	tf.Run(t, "apply")
	t.Cleanup(func() { tf.Run(t, "destroy") })
	unharmed := func(host string) {
		t.Helper()
		if err := boot.same(t, host)(nil); err != nil {
			t.Error(err)
		}
	}
	unharmed("kvm1")

	config("kvm2")
	// Before it begins: once it has switched without a limit, it is over before the test sees that.
	l.Virsh(t, "kvm1", "migrate-setspeed", "--postcopy", name, "1")
	apply := tf.Start(t, "apply")
	lab.Await(t, "the guest to run on the target", func() bool {
		out, err := l.TryVirsh(t, "kvm1", "domstate", "--reason", name)
		return err == nil && strings.Contains(out, "post-copy")
	})
	if err := apply.Interrupt(); err != nil {
		t.Fatal(err)
	}
	if out, _ := apply.Wait(); !inOrder("too far on to be aborted", `is now on host "kvm2"`).MatchString(out) {
		t.Errorf("the apply printed %s", out)
	}
	if err := onHosts(t, l, name, "", "running")(nil); err != nil {
		t.Error(err)
	}
	unharmed("kvm2")
	if state, tainted := tf.State(t, address); tainted || state["current_host"] != "kvm2" {
		t.Errorf("tainted %v, state %v", tainted, state)
	}

	tf.Run(t, "apply")
	if left := tf.Actions(t); len(left) > 0 && left[address] != "no-op" {
		t.Errorf("left to do: %v", left)
	}
}
