package virtualmachine_test

import (
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccVirtualMachine_silentHostReplace: the plan that replaces a VM whose host doesn't answer fails, however
// Terraform came to replace it: the VM could not be destroyed.
func TestAccVirtualMachine_silentHostReplace(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	tf := acctest.NewCLI(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	proxy := l.DelayProxy(t, "kvm2", 0)
	config := func(more hcl) string {
		hosts := []acctest.Host{{Of: l.Host("kvm1")}, viaProxy(proxy, "kvm2")}
		return acctest.Block{Lab: l, Hosts: hosts, Settings: `on_unreachable = "keep"`}.String() +
			idleVM(l, name).with(hcl{"run_strategy": quote("Halted"), "host": quote("kvm2")}).with(more).String()
	}
	tf.Config(t, config(nil))
	tf.Run(t, "apply")
	before, _ := tf.State(t, address)

	proxy.Cut()
	refused := func(args ...string) {
		t.Helper()
		expect(t, tf.Fail(t, append([]string{"plan"}, args...)...), "Error: Unable to replace virtual machine",
			"has to be destroyed before a new one is created", `Host "kvm2" does not answer`, "Virtual machine: "+name,
			"Host: kvm2", "fenced = true")
	}

	refused("-replace=" + address)
	refused("-replace="+address, "-refresh=false")
	tf.Config(t, config(hcl{"machine_type": quote("pc")}))
	refused()
	// No host pins it: the new one could be created on the other.
	tf.Config(t, config(hcl{"host": "null"}))
	tf.Run(t, "taint", address)
	refused()
	refused("-refresh=false")
	tf.Run(t, "untaint", address)

	proxy.Restore()
	tf.Config(t, config(nil))
	noChanges(t, tf)
	if after, _ := tf.State(t, address); after["id"] != before["id"] {
		t.Errorf("the VM was %v and is %v", before["id"], after["id"])
	}
	tf.Run(t, "apply", "-replace="+address)
	noChanges(t, tf)
	destroyAndCheck(t, l, tf, name)
}
