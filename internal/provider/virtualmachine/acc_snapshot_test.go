package virtualmachine_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccVirtualMachine_snapshot: an external snapshot, which backup tools make, leaves what the guest wrote since in
// an overlay. No update policy and no run strategy brings the old image back, also not between plan and apply, and
// neither does another key for a disk that was made with the VM.
func TestAccVirtualMachine_snapshot(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	base := l.Image(t, "kvm1", name+".qcow2", "qcow2", 8<<20)
	overlay := strings.TrimSuffix(base, ".qcow2") + ".snap1"
	tf := acctest.NewCLI(t)
	declare := func(file string, change hcl) {
		tf.Config(t, acctest.OneHost(l)+hcl{
			"name": quote(name), "type": quote("qemu"), "memory": `{ size = "64Mi" }`, "host": quote("kvm1"),
			"termination_grace_period": quote("0s"), "disks": fmt.Sprintf(`{ root = { file = %q } }`, file),
		}.with(change).String())
	}
	snapshot := func() {
		l.Virsh(t, "kvm1", "snapshot-create-as", name, "--disk-only", "--no-metadata", "--diskspec", "vda,file="+overlay)
	}
	declare(base, nil)
	tf.Run(t, "apply")

	declare(base, hcl{"labels": `{ app = "web" }`})
	tf.Plan(t)
	snapshot()
	expect(t, tf.Fail(t, "apply", "planned"), overlay, base, "blockcommit")

	for _, change := range []hcl{
		nil, {"update_policy": quote("Restart")}, {"update_policy": quote("Stage")}, {"run_strategy": quote("Halted")},
	} {
		declare(base, change)
		out := tf.Fail(t, "plan")
		expect(t, out, "Error: Disk was switched to another image", overlay, base, "blockcommit", "destroy -refresh=false")
		if strings.Contains(out, "needs a restart") {
			t.Errorf("%v: a restart is offered: %s", change, out)
		}
	}

	// What the error says helps: the overlay is declared, or merged back.
	declare(overlay, nil)
	noChanges(t, tf)
	l.Virsh(t, "kvm1", "blockcommit", name, overlay, "--active", "--pivot", "--wait")
	declare(base, nil)
	noChanges(t, tf)

	// Off, libvirt tells nothing of the chain.
	l.Run(t, "kvm1", "rm", overlay)
	snapshot()
	l.Virsh(t, "kvm1", "destroy", name)
	expect(t, tf.Fail(t, "plan"), "Error: Disk was switched to another image", overlay, base)
	if xml := l.Virsh(t, "kvm1", "dumpxml", "--inactive", name); !strings.Contains(xml, overlay) {
		t.Errorf("the overlay is gone from the definition: %s", xml)
	}
	declare(overlay, nil)
	tf.Run(t, "apply")
	noChanges(t, tf)

	// A disk that was made with the VM keeps what the guest wrote under another key too.
	own := func(key string) {
		declare(overlay, hcl{"disks": fmt.Sprintf(`{ root = { file = %q }, %s = { pool = "default", size = "2Mi" } }`,
			overlay, key)})
		tf.Run(t, "apply")
		noChanges(t, tf)
	}
	own("data")
	volume := source(t, l, name, "vdb")
	snap := strings.TrimSuffix(base, ".qcow2") + ".data1"
	l.Virsh(t, "kvm1", "snapshot-create-as", name, "--disk-only", "--no-metadata", "--diskspec", "vda,snapshot=no",
		"--diskspec", "vdb,file="+snap)
	own("more")
	if at := source(t, l, name, "vdb"); at != snap {
		t.Errorf("the renamed disk is at %s, the guest wrote to %s", at, snap)
	}
	l.Virsh(t, "kvm1", "blockcommit", name, "vdb", "--active", "--pivot", "--wait")
	l.Run(t, "kvm1", "rm", snap) // what is based on the volume would keep it from being removed with the VM
	noChanges(t, tf)
	destroyAndCheck(t, l, tf, name)
	l.Run(t, "kvm1", "test", "!", "-e", volume)
}

// source is the file of a disk of a running VM on kvm1.
func source(t *testing.T, l *lab.Lab, name, target string) string {
	t.Helper()
	for line := range strings.Lines(l.Virsh(t, "kvm1", "domblklist", name)) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == target {
			return f[1]
		}
	}
	return ""
}
