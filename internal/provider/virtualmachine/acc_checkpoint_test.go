package virtualmachine_test

import (
	"fmt"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccCheckpoint_moves: the bitmaps of checkpoints move with the disks, and so do the checkpoints, which libvirt
// itself leaves behind: live, and while the VM is off. An incremental backup continues its chain afterwards. If the
// disk's copy has no bitmap, the apply warns, and the VM has moved nevertheless.
func TestAccCheckpoint_moves(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	tf := acctest.NewCLI(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	vm := idleVM(l, name).with(hcl{"disks": `{ data = { pool = "default", size = "8Mi" } }`})
	config := func(host, strategy string) {
		tf.Config(t, providerBlock(l, "")+vm.with(hcl{
			"host": quote(host), "run_strategy": quote(strategy),
			"migration_options": `{ copy_storage = "full", keep_source_disks = false }`,
		}).String())
	}
	checkpoints := func(host string) {
		t.Helper()
		expect(t, l.Virsh(t, host, "checkpoint-list", name, "--tree"), "cp1", "+- cp2")
	}
	config("kvm1", "Always")
	tf.Run(t, "apply")
	l.Virsh(t, "kvm1", "checkpoint-create-as", name, "cp1")
	l.Virsh(t, "kvm1", "checkpoint-create-as", name, "cp2")

	config("kvm2", "Always")
	tf.Run(t, "apply")
	checkpoints("kvm2")
	noChanges(t, tf)

	config("kvm2", "Halted")
	tf.Run(t, "apply")
	config("kvm1", "Halted")
	tf.Run(t, "apply")
	checkpoints("kvm1")
	config("kvm1", "Always")
	tf.Run(t, "apply")
	backup := "/tmp/" + name
	l.Run(t, "kvm1", "sh", "-c", fmt.Sprintf(`echo '<domainbackup mode="push"><incremental>cp1</incremental><disks>`+
		`<disk name="vda" type="file"><target file="%s.qcow2"/></disk></disks></domainbackup>' >%[1]s.xml`, backup))
	t.Cleanup(func() { l.Run(t, "kvm1", "rm", "-f", backup+".xml", backup+".qcow2") })
	l.Virsh(t, "kvm1", "backup-begin", name, backup+".xml")
	lab.Await(t, "the backup", func() bool {
		out, err := l.TryVirsh(t, "kvm1", "domjobinfo", name)
		return err == nil && contains(out, "None") == nil
	})
	noChanges(t, tf)

	l.Virsh(t, "kvm1", "destroy", name)
	l.Run(t, "kvm1", "sh", "-c", "qemu-img bitmap --remove /var/lib/libvirt/images/"+name+"-data-* cp2")
	l.Virsh(t, "kvm1", "start", name)
	config("kvm2", "Always")
	expect(t, tf.Run(t, "apply"), "Warning: Checkpoints of the virtual machine are lost", name, "cp2:")
	if out := l.Virsh(t, "kvm2", "checkpoint-list", name); contains(out, "cp1") != nil || contains(out, "cp2") == nil {
		t.Errorf("kvm2 has: %s", out)
	}
	noChanges(t, tf)
	destroyAndCheck(t, l, tf, name)
}
