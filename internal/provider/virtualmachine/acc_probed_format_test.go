package virtualmachine_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kdomanski/iso9660"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccVirtualMachine_writtenHeader: what a guest writes into its raw volume doesn't decide how QEMU opens the volume
// for the next VM, nor whether Terraform replaces it.
func TestAccVirtualMachine_writtenHeader(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	tf := acctest.NewCLI(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	path := "/var/lib/libvirt/images/" + name
	labels := "{}"
	config := func(disk string) {
		text := acctest.OneHost(l) + fmt.Sprintf("resource \"virtfleet_volume\" \"data\" {\n  name = %q\n"+
			"  pool = \"default\"\n  host = \"kvm1\"\n  size = \"1Mi\"\n  format = \"raw\"\n}\n", name)
		if disk != "" {
			text += idleVM(l, name).with(hcl{
				"host": quote("kvm1"), "run_strategy": quote("Halted"), "labels": labels,
				"disks": "{ " + disk + " }",
			}).String()
		}
		tf.Config(t, text)
	}
	config("")
	tf.Run(t, "apply")
	l.Run(t, "kvm1", "sh", "-c", fmt.Sprintf("qemu-img create -q -u -f qcow2 -F raw -b /etc/shadow %[1]s.header 1M && "+
		"dd if=%[1]s.header of=%[1]s conv=notrunc status=none && rm %[1]s.header", path))
	l.RefreshPool(t, "kvm1")
	if xml := l.Virsh(t, "kvm1", "vol-dumpxml", "--pool", "default", name); !strings.Contains(xml, "/etc/shadow") {
		t.Fatalf("libvirt doesn't take it for an image: %s", xml)
	}
	noChanges(t, tf)

	const why = `begins like a qcow2 image on top of /etc/shadow`
	config("data = { volume = virtfleet_volume.data.id }")
	expect(t, tf.Fail(t, "plan"), why, `format = "raw"`, `format = "qcow2"`)
	config(fmt.Sprintf("data = { file = %q }", path))
	expect(t, tf.Fail(t, "plan"), why)
	config("data = { volume = virtfleet_volume.data.id, format = \"raw\" }")
	tf.Run(t, "apply")
	isRaw := func() {
		t.Helper()
		if xml := l.Virsh(t, "kvm1", "dumpxml", name); !strings.Contains(xml, `type='raw'`) {
			t.Errorf("the disk isn't raw: %s", xml)
		}
		noChanges(t, tf)
	}
	isRaw()

	// A VM that has the volume keeps its format, also without declaring it, and under another key.
	labels = `{ app = "web" }`
	for _, disk := range []string{
		"data = { volume = virtfleet_volume.data.id }", "logs = { volume = virtfleet_volume.data.id }",
		fmt.Sprintf("logs = { file = %q }", path), fmt.Sprintf("data = { file = %q }", path),
		"data = { volume = virtfleet_volume.data.id }",
	} {
		config(disk)
		tf.Run(t, "apply")
		isRaw()
	}
	destroyAndCheck(t, l, tf, name)
}

// TestAccVirtualMachine_writtenHeaderGrows: a VM's own raw disk, into which its guest has written the header of an
// image of another size, grows from its real size and keeps every byte, while the VM is off and while it runs. It never
// shrinks, and becomes a disk of the VM's own with its real size.
func TestAccVirtualMachine_writtenHeaderGrows(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	for header, virtual := range map[string]string{"smaller": "512K", "larger": "64M"} {
		t.Run(header, func(t *testing.T) {
			t.Parallel()
			tf := acctest.NewCLI(t)
			name := lab.Name(t)
			l.RemoveDomain(t, name)
			path := "/var/lib/libvirt/" + name + "/data"
			base := acctest.OneHost(l) + fmt.Sprintf("resource \"virtfleet_storage_pool\" \"vms\" {\n  name = %q\n"+
				"  type = \"dir\"\n  target = { path = %q }\n}\n", name, filepath.Dir(path))
			strategy := "Halted"
			config := func(disk string) {
				tf.Config(t, base+idleVM(l, name).with(hcl{
					"host": quote("kvm1"), "run_strategy": quote(strategy), "depends_on": "[virtfleet_storage_pool.vms]",
					"disks": "{ data = { " + disk + " } }",
				}).String())
			}
			own := func(mebibytes int) string {
				return fmt.Sprintf("pool = %q, format = \"raw\", size = \"%dMi\"", name, mebibytes)
			}
			run := func(script string) string {
				return strings.TrimSpace(l.Run(t, "kvm1", "sh", "-ec", script, "sh", path))
			}
			tf.Config(t, base)
			tf.Run(t, "apply")
			l.Virsh(t, "kvm1", "vol-create-as", name, "data", "10M", "--format", "raw")
			config(fmt.Sprintf("file = %q, format = \"raw\"", path))
			tf.Run(t, "apply")
			run("head -c 10485760 /dev/urandom | dd of=$1 conv=notrunc bs=1M status=none; " +
				"qemu-img create -q -f qcow2 $1.header " + virtual +
				"; dd if=$1.header of=$1 conv=notrunc bs=64K count=1 status=none; rm $1.header")
			l.Virsh(t, "kvm1", "pool-refresh", name)
			if xml := l.Virsh(t, "kvm1", "vol-dumpxml", "--pool", name, "data"); !strings.Contains(xml, "'qcow2'") {
				t.Fatalf("libvirt doesn't take it for an image: %s", xml)
			}
			noChanges(t, tf)
			const sum = "head -c 10485760 $1 | sha256sum"
			written := run(sum)
			has := func(mebibytes int) {
				t.Helper()
				if run(sum) != written {
					t.Errorf("giving it %d MiB has changed what was in it", mebibytes)
				}
				if size := run("stat -c %s $1"); size != fmt.Sprint(mebibytes<<20) {
					t.Errorf("the file has %s bytes, want %d MiB", size, mebibytes)
				}
			}
			config(own(8))
			expect(t, tf.Fail(t, "plan"), "disks never shrink")
			for _, mebibytes := range []int{10, 12} {
				config(own(mebibytes))
				tf.Run(t, "apply")
				has(mebibytes)
				noChanges(t, tf)
			}
			strategy = "Always"
			config(own(12))
			tf.Run(t, "apply")
			l.Virsh(t, "kvm1", "pool-refresh", name)
			config(own(14))
			tf.Run(t, "apply")
			has(14)
			noChanges(t, tf)
			l.Virsh(t, "kvm1", "blockresize", name, path, "32M")
			config(own(20))
			expect(t, tf.Fail(t, "plan"), "Disks never shrink", "32Mi")
			has(32)
			config(own(32))
			tf.Run(t, "apply")
			noChanges(t, tf)
			destroyAndCheck(t, l, tf, name)
		})
	}
}

// TestAccVirtualMachine_volumeOnOwnBase: a VM gets a volume that the same apply makes on an image that isn't a copy of
// a virtfleet_image, by the volume's id and by its path: no guest has written to that volume yet.
func TestAccVirtualMachine_volumeOnOwnBase(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	tf := acctest.NewCLI(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	base := l.Image(t, "kvm1", name+"-base", "qcow2", 1<<20)
	l.RefreshPool(t, "kvm1")
	config := func(disks string) {
		tf.Config(t, acctest.OneHost(l)+fmt.Sprintf(`
resource "virtfleet_volume" "data" {
  for_each = toset(["a", "b"])
  name     = "%[1]s-${each.key}"
  pool     = "default"
  host     = "kvm1"
  image    = "default/%[2]s"
}
`, name, filepath.Base(base))+idleVM(l, name).with(hcl{
			"host": quote("kvm1"), "run_strategy": quote("Halted"), "disks": disks,
		}).String())
	}
	isImage := func(disks int) {
		t.Helper()
		if xml := l.Virsh(t, "kvm1", "dumpxml", name); strings.Count(xml, "type='qcow2'") != disks {
			t.Errorf("the VM doesn't have %d images: %s", disks, xml)
		}
		noChanges(t, tf)
	}
	config(`{
    a = { volume = virtfleet_volume.data["a"].id }
    b = { file = virtfleet_volume.data["b"].path }
  }`)
	tf.Run(t, "apply")
	isImage(2)
	config(`{ a = { volume = virtfleet_volume.data["a"].id } }`)
	tf.Run(t, "apply")
	isImage(1)
	// Once the VM doesn't have it any more, it is a volume like any other.
	config(`{
    a = { volume = virtfleet_volume.data["a"].id }
    c = { volume = virtfleet_volume.data["b"].id }
  }`)
	expect(t, tf.Fail(t, "plan"), "begins like a qcow2 image on top of "+base)
	config(`{
    a = { volume = virtfleet_volume.data["a"].id }
    c = { volume = virtfleet_volume.data["b"].id, format = "qcow2" }
  }`)
	tf.Run(t, "apply")
	isImage(2)
	destroyAndCheck(t, l, tf, name)
}

// TestAccVirtualMachine_cdromInPool: libvirt calls the format of a CD image "iso", which QEMU's driver of libvirt
// doesn't know. A VM with such a medium starts.
func TestAccVirtualMachine_cdromInPool(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	tf := acctest.NewCLI(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	medium, err := iso9660.NewWriter()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = medium.Cleanup() })
	var content bytes.Buffer
	if err := medium.WriteTo(&content, "medium"); err != nil {
		t.Fatal(err)
	}
	path := l.Image(t, "kvm1", name+".iso", "raw", int64(content.Len()))
	if err := os.WriteFile(l.Host("kvm1").Path(path), content.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	l.RefreshPool(t, "kvm1")
	if xml := l.Virsh(t, "kvm1", "vol-dumpxml", "--pool", "default", name+".iso"); !strings.Contains(xml, "'iso'") {
		t.Fatalf("libvirt doesn't take it for a medium: %s", xml)
	}
	tf.Config(t, acctest.OneHost(l)+idleVM(l, name).with(hcl{
		"host": quote("kvm1"), "disks": fmt.Sprintf(`{ cd = { file = %q, device = "cdrom" } }`, path),
	}).String())
	tf.Run(t, "apply")
	if err := onHosts(t, l, name, "running", "")(nil); err != nil {
		t.Error(err)
	}
	noChanges(t, tf)
	destroyAndCheck(t, l, tf, name)
}
