package virtualmachine_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccVirtualMachine_killedOnceADiskIsDeleted: the provider is killed when libvirt has deleted a disk's volume, the
// only one of its storage pool. While another filesystem hides the pool's directory, the disk stays recorded: it may be
// there. The next apply that sees the directory forgets the disk, and the plan is empty. Killed when a destroy has
// deleted one of two disks, the VM is there, and can't be started. The next plan replaces it, also one that only
// refreshes the VM before it is destroyed, and says which data is lost and which is still there.
func TestAccVirtualMachine_killedOnceADiskIsDeleted(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name, tf := lab.Name(t), acctest.NewCLI(t)
	l.RemoveDomain(t, name)
	at := "/var/lib/libvirt/" + name + "-data"
	strategy := "Halted"
	declare := func(host acctest.Host, data bool) {
		pools, disks := "", map[string]string{"root": "root", "data": "data"}
		for pool := range disks {
			pools += fmt.Sprintf(`
resource "virtfleet_storage_pool" %[1]q {
  name   = "%[2]s-%[1]s"
  type   = "dir"
  target = { path = "/var/lib/libvirt/%[2]s-%[1]s" }
}
`, pool, name)
		}
		if !data {
			delete(disks, "data")
		}
		text := "{\n"
		for key := range disks {
			text += fmt.Sprintf("    %s = { pool = virtfleet_storage_pool.%[1]s.name, size = \"1Mi\" }\n", key)
		}
		tf.Config(t, acctest.Block{Lab: l, Hosts: []acctest.Host{host}}.String()+pools+idleVM(l, name).with(hcl{
			"host": quote("kvm1"), "run_strategy": quote(strategy), "disks": text + "  }",
		}).String())
	}
	recorded := func(when string, want bool) {
		t.Helper()
		xml := l.Virsh(t, "kvm1", "dumpxml", name)
		if strings.Contains(xml, at+"/"+name) != want || strings.Contains(xml, `removing="true"`) != want {
			t.Errorf("%s: the disk should be recorded: %v:\n%s", when, want, xml)
		}
	}
	direct := acctest.Host{Of: l.Host("kvm1")}
	declare(direct, true)
	tf.Run(t, "apply")

	deleted := func() bool {
		files, err := os.ReadDir(l.Host("kvm1").Path(at))
		return err == nil && len(files) == 0
	}
	declare(viaProxy(l.Gate(t, "kvm1", deleted), "kvm1"), false)
	apply := tf.Start(t, "apply")
	waitWhileRunning(t, "deleted", apply, deleted)
	if err := apply.KillProvider(); err != nil {
		t.Fatal(err)
	}
	if out, err := apply.Wait(); err == nil {
		t.Fatalf("the apply continued:\n%s", out)
	}
	recorded("killed", true)

	declare(direct, false)
	l.Run(t, "kvm1", "mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", at)
	expect(t, tf.Run(t, "apply"), "Disks of the virtual machine are kept", at+"/"+name, "isn't mounted")
	recorded("hidden", true)
	l.Run(t, "kvm1", "umount", at)
	expect(t, tf.Run(t, "apply"), `- "kvm1: `+name+`-data/`+name+`-data-`)
	recorded("seen", false)
	noChanges(t, tf)

	// Killed when the first of two disks is deleted, the only one of its pool.
	declare(direct, true)
	tf.Run(t, "apply")
	was, _ := tf.State(t, address)
	declare(viaProxy(l.Gate(t, "kvm1", deleted), "kvm1"), true)
	destroy := tf.Start(t, "destroy")
	waitWhileRunning(t, "deleted", destroy, deleted)
	if err := destroy.KillProvider(); err != nil {
		t.Fatal(err)
	}
	if out, err := destroy.Wait(); err == nil {
		t.Fatalf("the destroy continued:\n%s", out)
	}
	root := strings.TrimSpace(l.Run(t, "kvm1", "sh", "-c", "ls /var/lib/libvirt/"+name+"-root/*"))
	strategy = "Always"
	declare(direct, true)
	expect(t, tf.Run(t, "plan"), "must be replaced", "Destroy was interrupted: "+name, "What it deleted is lost:",
		"- disks.data: "+at+"/"+name+"-data-", "still there, and the apply deletes them", "- disks.root: "+root,
		"Data is deleted with virtual machine "+name, "which the interrupted deletion has deleted already")
	expect(t, tf.Fail(t, "apply", "-refresh=false"), "ts deletion, which ", "was interrupted", "disks.data: "+at)
	expect(t, tf.Run(t, "plan", "-destroy"), "3 to destroy", "Data is deleted with virtual machine "+name,
		"the interrupted deletion has deleted already")
	strategy = "Halted"
	declare(direct, true)
	tf.Run(t, "apply")
	if now, _ := tf.State(t, address); now["id"] == was["id"] {
		t.Errorf("the VM is the same: %v", now["id"])
	}
	if xml := l.Virsh(t, "kvm1", "dumpxml", name); strings.Contains(xml, "virtfleet:deleting") || deleted() {
		t.Errorf("the new VM lacks a disk, or is being deleted:\n%s", xml)
	}
	noChanges(t, tf)
	tf.Run(t, "plan", "-refresh=false", "-detailed-exitcode")

	destroyAndCheck(t, l, tf, name)
	if left := l.Run(t, "kvm1", "sh", "-c", "ls -A /var/lib/libvirt/"+name+"-*/"); strings.Contains(left, name+"-data-") ||
		strings.Contains(left, name+"-root-") {
		t.Errorf("left are %s", left)
	}
}
