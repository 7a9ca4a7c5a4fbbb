package virtualmachine_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccVirtualMachine_partition: a VM runs on a partition that a storage pool of type disk made. libvirt can't remove
// it, since the device's name ends in a digit: the plan that would remove it fails before the guest is touched, and
// says what to do, which works.
func TestAccVirtualMachine_partition(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	tf := acctest.NewCLI(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	device := l.LoopDevice(t, "kvm1", name, 32<<20)
	partition := filepath.Base(device) + "p1"
	pool := acctest.Block{Lab: l, Hosts: []acctest.Host{{Of: l.Host("kvm1")}}}.String() + fmt.Sprintf(`
resource "virtfleet_storage_pool" "parts" {
  name   = %q
  type   = "disk"
  build  = true
  target = { path = "/dev" }
  source = { devices = [%q], format = "gpt" }
}
`, name, device)
	volume := fmt.Sprintf(`
resource "virtfleet_volume" "data" {
  name = %q
  pool = virtfleet_storage_pool.parts.name
  size = "8Mi"
}
`, partition)
	vm := idleVM(l, name).with(hcl{"disks": `{ data = { volume = virtfleet_volume.data.id } }`}).String()
	domain := func() string {
		out, _ := l.TryVirsh(t, "kvm1", "domid", name)
		return strings.TrimSpace(out)
	}
	tf.Config(t, pool+volume+vm)
	tf.Run(t, "apply")
	noChanges(t, tf)
	before := domain()
	expect(t, l.Virsh(t, "kvm1", "dumpxml", name), partition)
	expect(t, l.Run(t, "kvm1", "cat", "/proc/partitions"), partition)

	refused := []string{
		"Error: Unable to delete volume",
		fmt.Sprintf("can't remove partition %q of storage pool %q", partition, name), device,
		"terraform state rm", "parted -s " + device + " rm 1", "virsh pool-refresh " + name,
	}
	expect(t, tf.Fail(t, "plan", "-destroy"), refused...)
	tf.Config(t, pool)
	expect(t, tf.Fail(t, "apply"), refused...)
	tf.Config(t, pool+strings.Replace(volume, partition, partition[:len(partition)-1]+"2", 1)+vm)
	expect(t, tf.Fail(t, "plan"), refused...)
	if now := domain(); now != before || before == "" {
		t.Errorf("the VM is domain %q, was %q", now, before)
	}

	tf.Run(t, "state", "rm", "virtfleet_volume.data")
	tf.Config(t, pool)
	tf.Run(t, "apply")
	if now := domain(); now != "" {
		t.Errorf("the VM is domain %q", now)
	}
	expect(t, l.Virsh(t, "kvm1", "vol-list", name), partition)
	l.Run(t, "kvm1", "parted", "-s", device, "rm", "1")
	l.Virsh(t, "kvm1", "pool-refresh", name)
	if left := volumes(t, l, "kvm1", name); len(left) != 0 {
		t.Errorf("the pool has %q", left)
	}
	noChanges(t, tf)
	destroyAndCheck(t, l, tf, name)
}
