package virtualmachine_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccVirtualMachine_handedOn: a volume goes from a VM that runs to another one. The plan says that both change at
// once, and one apply is enough if the VMs are changed in that order. A volume that two VMs that run are to have is
// reported, whichever of them has it, and so is one that a plan gives to two VMs that are off.
func TestAccVirtualMachine_handedOn(t *testing.T) {
	t.Parallel()
	l, tf, prefix := lab.Open(t), acctest.NewCLI(t), lab.Name(t)
	one, two := prefix+"-1", prefix+"-2"
	for _, name := range []string{one, two} {
		l.RemoveDomain(t, name)
	}
	const title = "Warning: Disk belongs to another virtual machine"
	config := func(first, second string, more ...string) {
		t.Helper()
		vms := acctest.OneHost(l) + fmt.Sprintf(`
resource "virtfleet_storage_pool" "vms" {
  name   = %[1]q
  type   = "dir"
  target = { path = "/var/lib/libvirt/%[1]s" }
}

resource "virtfleet_volume" "all" {
  for_each = toset(["one", "two", "spare"])
  pool     = virtfleet_storage_pool.vms.name
  name     = each.key
  size     = "1Mi"
}
`, prefix)
		for i, disks := range []string{first, second} {
			vm := tinyVM([]string{one, two}[i]).with(hcl{
				"memory": `{ size = "16Mi" }`, "host": quote("kvm1"), "disks": fmt.Sprintf("{ %s }", disks),
			})
			if i > 0 {
				vm = vm.with(hcl{"depends_on": "[virtfleet_virtual_machine.first]"})
			}
			vms += vm.named([]string{"first", "second"}[i])
		}
		tf.Config(t, vms+strings.Join(more, ""))
	}
	disk := func(volume string) string {
		return fmt.Sprintf(`%[1]s = { volume = virtfleet_volume.all[%[1]q].id, bus = "scsi" }`, volume)
	}
	config(disk("one"), "")
	tf.Run(t, "apply")

	config("", disk("one"))
	expect(t, tf.Run(t, "plan"), title, `Disk "one" of VM "`+two+`"`, `is disk "one" of VM "`+one+`"`, "depends_on")
	tf.Run(t, "apply")
	for name, has := range map[string]bool{one: false, two: true} {
		if is := strings.Contains(l.Virsh(t, "kvm1", "dumpxml", name), prefix+"/one"); is != has {
			t.Errorf("%s has the volume: %v", name, is)
		}
	}
	if out, empty := tf.Empty(t); !empty || strings.Contains(out, title) {
		t.Errorf("after the volume was handed on:\n%s", out)
	}

	// A user gives the volume back by hand: the plan that takes it from the VM again isn't refused.
	l.Virsh(t, "kvm1", "destroy", one)
	l.Virsh(t, "kvm1", "autostart", "--disable", one) // Otherwise the plan of the other VM is refused.
	path := "/var/lib/libvirt/" + prefix + "/one"
	l.Virsh(t, "kvm1", "attach-disk", one, path, "sdq", "--targetbus", "scsi", "--config")
	tf.Run(t, "apply")
	for name, has := range map[string]bool{one: false, two: true} {
		xml := l.Virsh(t, "kvm1", "dumpxml", name)
		if is := strings.Contains(xml, path); is != has || !strings.Contains(xml, "<domain type='qemu' id=") {
			t.Errorf("%s has the volume: %v, and runs as\n%s", name, is, xml)
		}
	}
	if out, empty := tf.Empty(t); !empty {
		t.Errorf("after the volume was taken from a VM:\n%s", out)
	}

	config(disk("two"), disk("one")+"\n"+disk("two"))
	expect(t, tf.Run(t, "plan"), title, `Disk "two" of VM "`+two+`"`, `VM "`+one+`"`, "two VMs that write to one disk")
	config(disk("two"), disk("one"))
	if out := tf.Run(t, "plan"); strings.Contains(out, title) {
		t.Errorf("each VM has a volume of its own, and the plan warns: %s", out)
	}

	off := func(name string) string {
		return tinyVM(prefix + "-" + name).with(hcl{
			"host": quote("kvm1"), "run_strategy": quote("Halted"), "disks": "{ " + disk("spare") + " }",
		}).named(name)
	}
	config("", disk("one"), off("three"))
	if out := tf.Run(t, "plan"); strings.Contains(out, title) {
		t.Errorf("only one VM gets the volume, and the plan warns: %s", out)
	}
	config("", disk("one"), off("three"), off("four"))
	expect(t, tf.Run(t, "plan"), title, `Disk "spare" of VM "`+prefix, `is also disk "spare" of VM "`+prefix,
		"gets it at the same time", "set shareable")
	destroyAndCheck(t, l, tf, one, two)
}
