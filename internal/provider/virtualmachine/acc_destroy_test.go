package virtualmachine_test

import (
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccVirtualMachine_destroyDespiteAChange: Terraform plans changes before it plans to destroy, so a change that
// needs a restart, or a move that is blocked, refuses the destroy, too. The error says how to destroy the VM anyway,
// and that works.
func TestAccVirtualMachine_destroyDespiteAChange(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	tf := acctest.NewCLI(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	vm := idleVM(l, name).with(hcl{"host": quote("kvm1")})
	tf.Config(t, acctest.OneHost(l)+vm.String())
	tf.Run(t, "apply")
	process := &started{l: l, host: "kvm1", name: name}
	if err := process.same(t)(nil); err != nil {
		t.Fatal(err)
	}

	tf.Config(t, acctest.OneHost(l)+vm.with(hcl{"cpu": `{ vcpus = 2 }`}).String())
	expect(t, tf.Fail(t, "destroy"), "Error: Change needs a restart", "cpu.vcpus",
		`To destroy, use "terraform destroy -refresh=false"`)
	tf.Config(t, acctest.OneHost(l)+vm.with(hcl{"host": quote("nowhere")}).String())
	expect(t, tf.Fail(t, "destroy"), "Error: Unknown host", `To destroy, use "terraform destroy -refresh=false"`)
	// The key of a host is renamed, and a VM still names the former one.
	renamed := acctest.Block{Lab: l, Hosts: []acctest.Host{{Name: "node1", Of: l.Host("kvm1")}}}.String()
	tf.Config(t, renamed+vm.String())
	expect(t, tf.Fail(t, "plan"), "Error: Unknown host", `Configured are "node1"`)
	tf.Config(t, renamed+vm.with(hcl{"host": quote("node1")}).String())
	tf.Run(t, "apply")
	noChanges(t, tf)
	tf.Config(t, acctest.OneHost(l)+vm.String())
	tf.Run(t, "apply")
	if err := process.same(t)(nil); err != nil {
		t.Error(err)
	}

	tf.Run(t, "destroy", "-refresh=false")
	if err := acctest.CheckDestroyed(l, name)(nil); err != nil {
		t.Error(err)
	}
}
