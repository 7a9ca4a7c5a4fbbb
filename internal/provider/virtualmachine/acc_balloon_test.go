package virtualmachine_test

import (
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccVirtualMachine_balloonWithoutDriver: a user raises the maximum of a VM whose guest has no driver of the
// balloon, and restarts the VM. The guest then has the maximum, and gives nothing back: the apply says that a restart
// is needed, and has corrected the definition, so that the restart is enough.
func TestAccVirtualMachine_balloonWithoutDriver(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	tf := acctest.NewCLI(t)
	tf.Config(t, acctest.OneHost(l)+idleVM(l, name).with(hcl{"host": quote("kvm1")}).String())
	tf.Run(t, "apply")
	restart := func(memory string) {
		t.Helper()
		l.Virsh(t, "kvm1", "destroy", name)
		l.Virsh(t, "kvm1", "start", name)
		if err := contains(l.Virsh(t, "kvm1", "dumpxml", name), "<currentMemory unit='KiB'>"+memory+"<"); err != nil {
			t.Fatal(err)
		}
	}
	l.Virsh(t, "kvm1", "setmaxmem", name, "160M", "--config")
	restart("163840")
	process := &started{l: l, host: "kvm1", name: name}
	process.pid = process.read(t)

	if change := tf.Plan(t)[address]; change.Actions != "update" ||
		acctest.ValueAt(change.Before, "memory.size") != "160Mi" || acctest.ValueAt(change.After, "memory.size") != "64Mi" {
		t.Errorf("planned is %+v", change)
	}
	expect(t, tf.Fail(t, "apply"), "Error: Unable to update virtual machine", "Changing memory.size of the running VM",
		"the guest was told to have 64Mi of memory and has 160Mi", "a restart gives it the memory")
	if err := process.same(t)(nil); err != nil {
		t.Error(err)
	}
	if err := contains(l.Virsh(t, "kvm1", "dumpxml", "--inactive", name), "<memory unit='KiB'>65536<",
		"<currentMemory unit='KiB'>65536<"); err != nil {
		t.Error(err)
	}
	restart("65536")
	noChanges(t, tf)
	destroyAndCheck(t, l, tf, name)
}
