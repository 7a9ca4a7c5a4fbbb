package virtualmachine_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccVirtualMachine_plannedPoolElsewhere: a storage pool that comes with the same apply counts with the directory
// that it will have. Where it will have another one than the disks of a VM, or than a volume, the plan fails.
func TestAccVirtualMachine_plannedPoolElsewhere(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	tf := acctest.NewCLI(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	at := "/var/lib/libvirt/" + name
	pool := func(host, path string) string {
		return fmt.Sprintf(`
resource "virtfleet_storage_pool" %[1]q {
  name   = %[2]q
  type   = "dir"
  target = { path = %[3]q }
  hosts  = [%[1]q]
}
`, host, name, path)
	}
	const volume = `
resource "virtfleet_volume" "data" {
  name = "data"
  pool = virtfleet_storage_pool.kvm1.name
  host = "kvm1"
  size = "1Mi"
}
`
	vm := func(host, poolOn string) string {
		return idleVM(l, name).with(hcl{"host": quote(host), "run_strategy": quote("Halted"), "disks": fmt.Sprintf(
			`{ own = { pool = virtfleet_storage_pool.%s.name, size = "1Mi" } }`, poolOn)}).String()
	}
	first := providerBlock(l, "") + pool("kvm1", at)
	tf.Config(t, first+volume+vm("kvm1", "kvm1"))
	tf.Run(t, "apply")

	// Where the VM moves to there is no such pool yet.
	tf.Config(t, first+volume+pool("kvm2", at+"-other")+vm("kvm2", "kvm2"))
	expect(t, tf.Fail(t, "plan"), "DisksNotLiveMigratable", `is planned on host "kvm2" in `+at+"-other")

	// There is one elsewhere.
	tf.Config(t, first+volume+pool("kvm2", at+"-other")+vm("kvm1", "kvm1"))
	tf.Run(t, "apply")
	tf.Config(t, first+volume+pool("kvm2", at+"-other")+vm("kvm2", "kvm2"))
	expect(t, tf.Fail(t, "plan"), "DisksNotLiveMigratable", `is planned on host "kvm2" in `+at+"-other")

	// A pool that goes elsewhere leaves its volumes.
	other := pool("kvm2", at+"-other")
	tf.Config(t, strings.Replace(first, quote(at), quote(at+"-other"), 1)+volume+other+vm("kvm1", "kvm1"))
	out := tf.Fail(t, "plan")
	expect(t, out, "Error: Storage pool leaves its volumes", at+"-other")
	expect(t, out, "2 volumes stay behind on host kvm1: ")
	expect(t, out, `volume "`+name+`/data" is at`)
	expect(t, out, `Disk "own" of virtual machine "`+name+`" on host "kvm1" is at`)
	tf.Config(t, first+volume+other+vm("kvm1", "kvm1"))
	noChanges(t, tf)
	destroyAndCheck(t, l, tf, name)
}
