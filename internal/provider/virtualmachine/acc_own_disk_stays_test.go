package virtualmachine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccVirtualMachine_ownDiskOfABrokenPool: a disk is removed from a VM while its storage pool can't be started. The
// apply says that its volume stays. So does the next plan, which names it, and each apply, until the pool is there
// again. Then an apply removes the volume.
func TestAccVirtualMachine_ownDiskOfABrokenPool(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	tf, at, broken := acctest.NewCLI(t), "/var/lib/libvirt/"+name, name+"-broken"
	hide := func() {
		l.Virsh(t, "kvm1", "pool-destroy", broken)
		l.Run(t, "kvm1", "mv", at+"-broken", at+"-away")
	}
	show := func() { l.Run(t, "kvm1", "mv", at+"-away", at+"-broken") }
	l.Run(t, "kvm1", "mkdir", at+"-broken")
	l.Virsh(t, "kvm1", "pool-define-as", broken, "dir", "--target", at+"-broken")
	l.Virsh(t, "kvm1", "pool-start", broken)
	declare := func(disks string) {
		tf.Config(t, acctest.OneHost(l)+fmt.Sprintf(`
resource "virtfleet_storage_pool" "vms" {
  name   = %q
  type   = "dir"
  target = { path = %q }
}
`, name, at)+idleVM(l, name).with(hcl{
			"host": quote("kvm1"), "run_strategy": quote("Halted"),
			"disks": "{\n    root = { pool = virtfleet_storage_pool.vms.name, size = \"1Mi\" }\n" + disks + "  }",
		}).String())
	}
	declare(fmt.Sprintf("    data = { pool = %q, size = \"1Mi\" }\n", broken))
	tf.Run(t, "apply")
	state, _ := tf.State(t, address)
	disks, _ := state["disks"].(map[string]any)
	disk, _ := disks["data"].(map[string]any)
	file := fmt.Sprint(disk["path"])
	volume := strings.TrimPrefix(file, at+"-broken/")
	left := `"kvm1: ` + broken + "/" + volume + `"`

	hide()
	declare("")
	expect(t, tf.Run(t, "apply"), "Disks of the virtual machine are kept", volume, "The next run tries again")
	xml := l.Virsh(t, "kvm1", "dumpxml", name)
	if strings.Contains(xml, "<source file='"+file) || !strings.Contains(xml, `removing="true"`) {
		t.Errorf("the VM should have lost the disk, and its record should have it:\n%s", xml)
	}
	expect(t, tf.Run(t, "plan"), "- "+left, "Disks are deleted with their data", file)
	expect(t, tf.Run(t, "apply"), "- "+left, "Disks of the virtual machine are kept", volume)
	show()
	if out := l.Run(t, "kvm1", "ls", at+"-broken"); strings.TrimSpace(out) != volume {
		t.Errorf("the pool's directory has %s; want %s", out, volume)
	}
	expect(t, tf.Run(t, "apply"), "- "+left)
	noChanges(t, tf)
	if got := volumes(t, l, "kvm1", broken); len(got) > 0 {
		t.Errorf("the pool has %q", got)
	}
	if got := volumes(t, l, "kvm1", name); !slices.Equal(got, []string{name + "-root"}) {
		t.Errorf("the other pool has %q", got)
	}
	if xml := l.Virsh(t, "kvm1", "dumpxml", name); strings.Contains(xml, volume) {
		t.Errorf("the VM's record still has the volume:\n%s", xml)
	}
	l.Virsh(t, "kvm1", "pool-destroy", broken)
	l.Virsh(t, "kvm1", "pool-undefine", broken)
	l.Run(t, "kvm1", "rmdir", at+"-broken")
	destroyAndCheck(t, l, tf, name)
}

// TestAccVirtualMachine_ownDiskWithoutItsPool: a change of a disk whose storage pool was undefined by hand fails, and
// the error says that the pool's resource defines it again. That does, and the disk's file has stayed.
func TestAccVirtualMachine_ownDiskWithoutItsPool(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	tf, at := acctest.NewCLI(t), "/var/lib/libvirt/"+name
	declare := func(size string) {
		tf.Config(t, acctest.OneHost(l)+fmt.Sprintf(`
resource "virtfleet_storage_pool" "vms" {
  name   = %q
  type   = "dir"
  target = { path = %q }
}
`, name, at)+idleVM(l, name).with(hcl{
			"host": quote("kvm1"), "run_strategy": quote("Halted"),
			"disks": fmt.Sprintf("{ root = { pool = %q, size = %q } }\n  depends_on = [virtfleet_storage_pool.vms]", name, size),
		}).String())
	}
	declare("1Mi")
	tf.Run(t, "apply")
	l.Virsh(t, "kvm1", "pool-destroy", name)
	l.Virsh(t, "kvm1", "pool-undefine", name)
	declare("2Mi")
	expect(t, tf.Fail(t, "apply", "-refresh=false"), "virtfleet_storage_pool does that")
	tf.Run(t, "apply")
	noChanges(t, tf)
	if got := volumes(t, l, "kvm1", name); !slices.Equal(got, []string{name + "-root"}) {
		t.Errorf("the pool has %q", got)
	}
	destroyAndCheck(t, l, tf, name)
}
