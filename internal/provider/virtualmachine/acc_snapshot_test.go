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
	key, size := "data", "1Mi"
	declare := func(file string, change hcl) {
		tf.Config(t, acctest.OneHost(l)+hcl{
			"name": quote(name), "type": quote("qemu"), "memory": `{ size = "64Mi" }`, "host": quote("kvm1"),
			"termination_grace_period": quote("0s"), "disks": fmt.Sprintf(`{
				root = { file = %q }
				%s = { pool = "default", size = %q }
			}`, file, key, size),
		}.with(change).String())
	}
	snapshotOf := func(disk, other, file string) {
		t.Helper()
		l.Virsh(t, "kvm1", "snapshot-create-as", name, "--disk-only", "--no-metadata", "--diskspec", disk+",file="+file,
			"--diskspec", other+",snapshot=no")
	}
	declare(base, nil)
	tf.Run(t, "apply")
	const data, root = "vda", "vdb"
	snapshot := func() { snapshotOf(root, data, overlay) }

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

	// A disk that was made with the VM doesn't grow under an overlay.
	above := strings.TrimSuffix(base, ".qcow2") + "-data.snap1"
	snapshotOf(data, root, above)
	l.RefreshPool(t, "kvm1") // The overlay is a volume then, and libvirt has probed it.
	key = "logs"             // Called something else, it keeps its overlay.
	declare(overlay, nil)
	tf.Run(t, "apply")
	noChanges(t, tf)
	if err := contains(l.Virsh(t, "kvm1", "domblklist", name), above); err != nil {
		t.Fatal(err)
	}
	size = "2Mi"
	declare(overlay, nil)
	expect(t, tf.Fail(t, "plan"), "Error: Disk can't grow under an overlay", `Disk "logs"`, above, "blockcommit",
		"destroy -refresh=false")
	// No longer declared, it isn't deleted, and neither is what it is based on. The plan says only that.
	declare(overlay, hcl{"disks": fmt.Sprintf("{ root = { file = %q } }", overlay)})
	out := tf.Run(t, "plan")
	expect(t, out, "Disks of the virtual machine are kept", above)
	if strings.Contains(out, "Disks are deleted with their data") {
		t.Errorf("the plan says that the disk is deleted, too: %s", out)
	}
	declare(overlay, nil)
	merge := func() { l.Virsh(t, "kvm1", "blockcommit", name, above, "--active", "--pivot", "--wait") }
	merge()
	tf.Run(t, "apply")
	noChanges(t, tf)
	if err := contains(l.Virsh(t, "kvm1", "domblkinfo", name, data), fmt.Sprintf(" %d\n", 2<<20)); err != nil {
		t.Error(err)
	}

	// Copied to another file, the disk is no overlay, and every plan says where it is.
	state, _ := tf.State(t, address)
	disks, _ := state["disks"].(map[string]any)
	logs, _ := disks[key].(map[string]any)
	volume := fmt.Sprint(logs["path"])
	copyTo := func(file string) {
		l.Virsh(t, "kvm1", "blockcopy", name, data, file, "--wait", "--pivot", "--transient-job")
	}
	copyTo(above + ".copy")
	l.Run(t, "kvm1", "rm", volume)
	const left = "Disk has left its volume"
	noChanges(t, tf)
	expect(t, tf.Run(t, "plan"), "Warning: "+left, volume, above+".copy")
	expect(t, tf.Run(t, "plan", "-destroy"), volume, above+".copy now, which stays")
	size = "3Mi"
	declare(overlay, nil)
	expect(t, tf.Fail(t, "plan"), "Error: "+left, volume, above+".copy")
	size = "2Mi"
	declare(overlay, nil)
	copyTo(volume)
	l.Run(t, "kvm1", "rm", above+".copy")
	if out := tf.Run(t, "plan"); strings.Contains(out, left) {
		t.Errorf("the disk is in its volume again: %s", out)
	}

	// What the warning says helps, and deletes nothing.
	copyTo(above + ".copy")
	asIs := hcl{"disks": fmt.Sprintf("{ root = { file = %q }\n%s = { file = %q } }", overlay, key, above+".copy")}
	declare(overlay, asIs)
	tf.Run(t, "apply")
	noChanges(t, tf)
	if err := contains(l.Virsh(t, "kvm1", "domblklist", name), above+".copy"); err != nil {
		t.Fatal(err)
	}
	l.Run(t, "kvm1", "rm", volume) // It is still there.

	// libvirt writes the file of a definition again that a user has removed. Destroyed, nothing of the VM comes back.
	const file = "/etc/libvirt/qemu/"
	l.Virsh(t, "kvm1", "undefine", name)
	l.Run(t, "kvm1", "rm", above)
	snapshotOf(data, root, above)
	merge()
	expect(t, l.Run(t, "kvm1", "ls", file), name+".xml")
	destroyAndCheck(t, l, tf, name)
	l.Run(t, "kvm1", "rm", above+".copy")
	if files := l.Run(t, "kvm1", "ls", file); strings.Contains(files, name) {
		t.Errorf("the definition is left: %s", files)
	}
}

// TestAccVirtualMachine_destroyUnderOverlay: the plan that destroys a VM names the overlay which has what its guest
// wrote last, also if nothing else is deleted or kept. The overlay stays, as its base does.
func TestAccVirtualMachine_destroyUnderOverlay(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	base := l.Image(t, "kvm1", name+".qcow2", "qcow2", 1<<20)
	overlay := strings.TrimSuffix(base, ".qcow2") + ".snap1"
	tf := acctest.NewCLI(t)
	tf.Config(t, acctest.OneHost(l)+tinyVM(name).with(hcl{
		"run_strategy": quote("Halted"), "disks": fmt.Sprintf(`{ root = { file = %q } }`, base),
	}).String())
	tf.Run(t, "apply")
	if out := tf.Run(t, "plan", "-destroy"); strings.Contains(out, "Data is") {
		t.Errorf("its disk is where it is declared: %s", out)
	}
	l.Virsh(t, "kvm1", "snapshot-create-as", name, "--disk-only", "--no-metadata", "--diskspec", "vda,file="+overlay)
	want := []string{
		"Warning: Data is kept after destroying virtual machine " + name, "what the guest wrote last is in these",
		"- disks.root: " + overlay + ", and " + base + ", as it was declared, lacks that",
	}
	expect(t, tf.Run(t, "plan", "-destroy", "-refresh=false"), want...)
	tf.Config(t, acctest.OneHost(l))
	expect(t, tf.Run(t, "plan"), want...)
	destroyAndCheck(t, l, tf, name)
	l.Run(t, "kvm1", "qemu-img", "check", "-q", overlay)
	l.Run(t, "kvm1", "rm", overlay)
}
