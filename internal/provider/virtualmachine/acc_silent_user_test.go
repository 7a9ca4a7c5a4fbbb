package virtualmachine_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccVirtualMachine_diskOfASilentHost: a host that shares a storage pool and doesn't answer may use a disk that is
// to be removed. The plan says so, and an apply that was planned before finds it out before it touches the guest.
func TestAccVirtualMachine_diskOfASilentHost(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	tf := acctest.NewCLI(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	proxy := l.DelayProxy(t, "kvm2", 0)
	hosts := []acctest.Host{{Of: l.Host("kvm1")}, viaProxy(proxy, "kvm2")}
	storage := acctest.Block{Lab: l, Hosts: hosts, Settings: `on_unreachable = "keep"`}.String() + fmt.Sprintf(`
resource "virtfleet_storage_pool" "vms" {
  name   = %[1]q
  type   = "dir"
  target = { path = "/var/lib/libvirt/%[1]s" }
  shared = true
}
`, name)
	volume := fmt.Sprintf(`
resource "virtfleet_volume" "data" {
  name = "%s-data"
  pool = virtfleet_storage_pool.vms.name
  host = "kvm1"
  size = "1Mi"
}
`, name)
	vm := func(disks ...string) string {
		return idleVM(l, name).with(hcl{"host": quote("kvm1"), "disks": "{\n" + strings.Join(disks, "\n") + "\n}"}).String()
	}
	const own = `own = { pool = virtfleet_storage_pool.vms.name, size = "1Mi" }`
	const data = `data = { volume = virtfleet_volume.data.id }`
	domain := func() string {
		out, _ := l.TryVirsh(t, "kvm1", "domid", name)
		return strings.TrimSpace(out)
	}
	tf.Config(t, storage+volume+vm(own, data))
	tf.Run(t, "apply")
	before, files := domain(), volumes(t, l, "kvm1", name)
	if len(files) != 2 {
		t.Fatalf("there are %q", files)
	}
	expect(t, tf.Run(t, "plan", "-destroy", "-out=destroying"), "Data is deleted with virtual machine "+name,
		"Deleted, in addition to its definition: - disks.own: /var/lib/libvirt/", "Not deleted with the VM",
		"- disks.data: /var/lib/libvirt/")
	untouched := func(after string) {
		t.Helper()
		if now := domain(); now != before || before == "" {
			t.Errorf("%s: the VM is domain %q, was %q", after, now, before)
		}
		if now := volumes(t, l, "kvm1", name); len(now) != 2 {
			t.Errorf("%s: there are %q, want %q", after, now, files)
		}
	}

	proxy.Cut()
	const shares = `host "kvm2", which shares the pool, can't be asked whether it uses the volume`
	expect(t, tf.Fail(t, "apply", "destroying"), "Error: Unable to delete virtual machine", shares, "fenced = true")
	untouched("an apply of a plan that was made before")

	expect(t, tf.Fail(t, "plan", "-destroy"), "Error: Unable to delete virtual machine", shares)
	tf.Config(t, storage+vm(own))
	expect(t, tf.Fail(t, "plan"), "Error: Unable to delete volume",
		`Host "kvm2" shares the storage pool and can't be asked whether it uses the volume`, "fenced = true")
	tf.Config(t, storage+volume+vm(data))
	expect(t, tf.Fail(t, "plan"), "Error: Unable to plan virtual machine", shares, "disks.own.on_destroy")
	tf.Config(t, storage+volume+vm(strings.Replace(own, `"1Mi"`, `"1Mi", on_destroy = "keep"`, 1), data))
	tf.Run(t, "plan") // Nothing is removed.
	untouched("plans")

	// A destroy wouldn't remove the disk then, and says so.
	proxy.Restore()
	tf.Run(t, "apply")
	expect(t, tf.Run(t, "plan", "-destroy"), "Data is kept after destroying virtual machine "+name,
		"because on_destroy says so: - disks.own: /var/lib/libvirt/", "- disks.data: /var/lib/libvirt/")
	tf.Config(t, storage+volume+vm(own, data))
	tf.Run(t, "apply")
	noChanges(t, tf)
	destroyAndCheck(t, l, tf, name)
}
