package virtualmachine_test

import (
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccVirtualMachine_volumeRemovedWithItsDisk: Terraform removes a volume before it takes the disk from the VM, so
// the plan warns, and the apply changes nothing. In two applies it works, and in one if the volume's lifecycle turns
// the order.
func TestAccVirtualMachine_volumeRemovedWithItsDisk(t *testing.T) {
	t.Parallel()
	h, tf := newHanding(t, "Halted"), acctest.NewCLI(t)
	without := h.base() + idleVM(h.l, h.name).with(hcl{
		"host": quote("kvm1"), "run_strategy": quote(h.strategy), "disks": "{}",
		"depends_on": "[virtfleet_storage_pool.vms]",
	}).String()
	with := h.config("volume = virtfleet_volume.data.id")
	volume := func(lifecycle string) string {
		return "resource \"virtfleet_volume\" \"data\" {\n  name = \"data.qcow2\"\n  host = \"kvm1\"\n" +
			"  pool = virtfleet_storage_pool.vms.name\n  size = \"16Mi\"\n" + lifecycle + "}\n"
	}
	tf.Config(t, with+volume(""))
	tf.Run(t, "apply")
	is := h.l.Virsh(t, "kvm1", "dumpxml", h.name)
	tf.Config(t, without)
	const warning = "Warning: Volume is removed before its disk"
	if out := tf.Run(t, "plan"); strings.Count(out, warning) != 1 {
		t.Errorf("the plan doesn't warn once: %s", out)
	}
	if out := tf.Fail(t, "apply"); !strings.Contains(out, "Error: Unable to delete volume") {
		t.Errorf("the apply says: %s", out)
	}
	if now := h.l.Virsh(t, "kvm1", "dumpxml", h.name); now != is {
		t.Errorf("the VM is\n%s\nwas\n%s", now, is)
	}
	tf.Config(t, without+volume(""))
	if out := tf.Run(t, "apply"); strings.Contains(out, warning) {
		t.Errorf("the apply that takes only the disk warns: %s", out)
	}
	tf.Config(t, without)
	if out := tf.Run(t, "apply"); strings.Contains(out, warning) {
		t.Errorf("the apply that removes only the volume warns: %s", out)
	}

	tf.Config(t, with+volume("  lifecycle { create_before_destroy = true }\n"))
	tf.Run(t, "apply")
	tf.Config(t, without)
	tf.Run(t, "apply")
	if left := volumes(t, h.l, "kvm1", h.name); len(left) != 0 {
		t.Errorf("the storage pool still has %q", left)
	}
	if out, empty := tf.Empty(t); !empty {
		t.Errorf("the plan isn't empty: %s", out)
	}

	// Where the VM goes, too, it goes first.
	tf.Config(t, with+volume(""))
	tf.Run(t, "apply")
	if out := tf.Run(t, "destroy"); strings.Contains(out, warning) {
		t.Errorf("the destroy warns: %s", out)
	}
}
