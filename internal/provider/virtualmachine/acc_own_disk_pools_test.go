package virtualmachine_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccVirtualMachine_ownDiskOnFS: a VM's root disk is made of an image in a storage pool of type fs, on the file
// system of a block device, grows there under the VM, and goes with it.
func TestAccVirtualMachine_ownDiskOnFS(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	device := l.LoopDevice(t, "kvm1", name+"-fs", 64<<20)
	at := "/var/lib/libvirt/" + name
	storage := acctest.OneHost(l) + fmt.Sprintf(`
resource "virtfleet_storage_pool" "vms" {
  name       = %[1]q
  type       = "fs"
  build      = true
  target     = { path = %[2]q }
  source     = { devices = [%[3]q], format = "ext4" }
  on_destroy = "delete"
}
resource "virtfleet_image" "base" {
  name   = "base"
  pool   = virtfleet_storage_pool.vms.name
  source = { file = %[4]q }
}
`, name, at, device, imageFile(t))
	vm := func(size string) string {
		return storage + idleVM(l, name).with(hcl{"host": quote("kvm1"), "disks": fmt.Sprintf(
			`{ root = { pool = virtfleet_storage_pool.vms.name, image = virtfleet_image.base.id, size = %q } }`, size)}).String()
	}
	has := func(want ...string) resource.TestCheckFunc {
		return func(*terraform.State) error {
			is := slices.DeleteFunc(volumes(t, l, "kvm1", name), func(v string) bool { return v == "lost+found" })
			if !slices.Equal(is, want) {
				return fmt.Errorf("the pool has %q; want %q", is, want)
			}
			return contains(l.Run(t, "kvm1", "findmnt", "--noheadings", "--output", "SOURCE,FSTYPE", at), device, "ext4")
		}
	}
	process := &started{l: l, host: "kvm1", name: name}
	runs := func(mib int) resource.TestCheckFunc {
		return resource.ComposeTestCheckFunc(has("base", name+"-root"), look(t, l, "kvm1", name, "<source file='"+at+"/"),
			process.same(t), func(*terraform.State) error {
				return errors.Join(contains(l.Virsh(t, "kvm1", "domblkinfo", name, "vda"), fmt.Sprintf("%d\n", mib<<20)),
					contains(l.Run(t, "kvm1", "sh", "-c", "qemu-img info -U "+at+"/"+name+"-root-*"), "backing file: "+at+"/base-"))
			})
	}
	story(t, l, []string{name}, resource.TestStep{
		Config: vm("40Mi"), ConfigPlanChecks: changes(plancheck.ResourceActionCreate), Check: runs(40),
	}, resource.TestStep{
		Config: vm("48Mi"), ConfigPlanChecks: changes(plancheck.ResourceActionUpdate), Check: runs(48),
	}, resource.TestStep{
		Config: storage, Check: has("base"),
	})
	if mounts := l.Run(t, "kvm1", "cat", "/proc/mounts"); strings.Contains(mounts, at) {
		t.Errorf("it is still mounted: %s", mounts)
	}
}

// TestAccVirtualMachine_ownDiskOnNetFS: a VM's root disk is made of an image in a storage pool of type netfs, which two
// hosts mount. The running VM moves between them without a copy: the server has one file all the time. It grows there,
// and goes with the VM.
func TestAccVirtualMachine_ownDiskOnNetFS(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	g := l.Gluster(t, name)
	at := "/var/lib/libvirt/" + name
	storage := providerBlock(l, "") + fmt.Sprintf(`
resource "virtfleet_storage_pool" "vms" {
  name       = %[1]q
  type       = "netfs"
  target     = { path = %[2]q }
  source     = { hosts = [{ name = %[3]q }], dir = "/%[4]s", format = "glusterfs" }
  on_destroy = "delete"
}
resource "virtfleet_image" "base" {
  name   = "base"
  pool   = virtfleet_storage_pool.vms.name
  source = { file = %[5]q }
}
`, name, at, g.Host, g.Volume, imageFile(t))
	vm := func(host, size string) string {
		return storage + idleVM(l, name).with(hcl{"host": quote(host), "disks": fmt.Sprintf(
			`{ root = { pool = virtfleet_storage_pool.vms.name, image = virtfleet_image.base.id, size = %q, cache = "none" } }`,
			size)}).String()
	}
	files := func() (all []string) {
		t.Helper()
		paths, err := filepath.Glob(g.Path("[^.]*")) // Those of Gluster itself begin with a dot.
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range paths {
			all = append(all, unique.ReplaceAllString(filepath.Base(file), ""))
		}
		return all
	}
	serves := func(want ...string) error {
		if is := files(); !slices.Equal(is, want) {
			return fmt.Errorf("the server has %q; want %q", is, want)
		}
		return nil
	}
	var disk os.FileInfo
	runs := func(host, size string) resource.TestCheckFunc {
		return resource.ComposeTestCheckFunc(look(t, l, host, name, "<source file='"+at+"/"), func(s *terraform.State) error {
			file := s.RootModule().Resources[address].Primary.Attributes["disks.root.path"]
			now, err := os.Stat(g.Path(filepath.Base(file)))
			if err != nil {
				return err
			}
			if disk != nil && !os.SameFile(disk, now) {
				return fmt.Errorf("%s is another file on the server", file)
			}
			disk = now
			return errors.Join(serves("base", name+"-root"), contains(l.Virsh(t, host, "domstate", name), "running"),
				contains(l.Run(t, host, "findmnt", "--noheadings", "--output", "FSTYPE", at), "glusterfs"),
				contains(l.Run(t, host, "qemu-img", "info", "-U", file), "virtual size: "+size, "backing file: "+at+"/base-"))
		})
	}
	story(t, l, []string{name}, resource.TestStep{
		Config: vm("kvm2", "40Mi"), ConfigPlanChecks: changes(plancheck.ResourceActionCreate), Check: runs("kvm2", "40 MiB"),
	}, resource.TestStep{
		Config: vm("kvm1", "40Mi"), ConfigPlanChecks: changes(plancheck.ResourceActionUpdate),
		ConfigStateChecks: []statecheck.StateCheck{
			know("current_host", exactly("kvm1")), know("location.left_volumes", knownvalue.ListExact(nil)),
		},
		Check: resource.ComposeTestCheckFunc(runs("kvm1", "40 MiB"), func(*terraform.State) error {
			return contains(l.Virsh(t, "kvm1", "metadata", name, "urn:virtfleet:1"), `method="LiveMigration"`)
		}),
	}, resource.TestStep{
		Config: vm("kvm1", "48Mi"), ConfigPlanChecks: changes(plancheck.ResourceActionUpdate),
		Check: resource.ComposeTestCheckFunc(runs("kvm1", "48 MiB"), func(*terraform.State) error {
			return contains(l.Virsh(t, "kvm1", "domblkinfo", name, "vda"), fmt.Sprintf("%d\n", 48<<20))
		}),
	})
	// The image went right after the disk, of which the other host still knew.
	if err := serves(); err != nil {
		t.Error(err)
	}
}
