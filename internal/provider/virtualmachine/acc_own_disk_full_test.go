package virtualmachine_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// compressedImage is a small file of an image with 24 MiB of content: a copy of it occupies much more.
func compressedImage(t *testing.T) string {
	t.Helper()
	raw, file := filepath.Join(t.TempDir(), "raw"), filepath.Join(t.TempDir(), "image.qcow2")
	if err := os.WriteFile(raw, bytes.Repeat([]byte("content "), 24<<17), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "qemu-img", "convert", "-c", "-O", "qcow2", raw, file).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return file
}

// TestAccVirtualMachine_ownDiskPoolFull: the pool of a disk becomes full between the plan and the apply. The error
// names the disk, its line, the pool, the host and what to do. Nothing of the disk is left, and the next apply
// converges once there is room: when the VM is created, and when the disk is added to the running VM.
func TestAccVirtualMachine_ownDiskPoolFull(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	host := l.StartHost(t)
	image := compressedImage(t)
	const content, some, table = 24 << 20, 8 << 20, 64 << 10
	full := fmt.Sprintf("became full meanwhile. It has %d bytes left now, and more than", some)
	for kind, m := range map[string]struct {
		disk string
		// left is what the pool has left, as the error says.
		left int
		says string
	}{
		// The apply has libvirt look first, and nothing is written.
		"thick": {
			`size = "24Mi", format = "raw", preallocation = "full"`, some,
			fmt.Sprintf("has %d bytes left, and %d bytes are needed at once", some, content),
		},
		// QEMU has made the file when it finds that there is no room for all of it: its tables come in addition.
		"thick, qcow2": {
			`size = "24Mi", preallocation = "full"`, content + table,
			fmt.Sprintf("became full meanwhile. It has %d bytes left now, and more than %d", content+table, content),
		},
		// libvirt doesn't know what a copy will occupy, and finds the pool full in the middle of it.
		"copy":        {`image = virtfleet_image.base.id, clone = "full"`, some, full},
		"copy to raw": {`image = virtfleet_image.base.id, clone = "full", format = "raw"`, some, full},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			tf := acctest.NewCLI(t)
			name := lab.Name(t)
			l.RemoveDomain(t, name)
			at := "/var/lib/libvirt/" + name
			l.Run(t, host.Name, "mkdir", at)
			l.Run(t, host.Name, "mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", at)
			base := acctest.Block{Lab: l, Hosts: []acctest.Host{{Of: host}}}.String() + poolWithImage(name, image)
			config := func(keys ...string) {
				t.Helper()
				var disks strings.Builder
				for _, key := range keys {
					fmt.Fprintf(&disks, "    %s = { pool = virtfleet_storage_pool.vms.name, %s }\n", key, m.disk)
				}
				tf.Config(t, base+idleVM(l, name).with(hcl{
					"host": quote(host.Name), "disks": "{\n" + disks.String() + "  }",
				}).String())
			}
			has := func(want ...string) {
				t.Helper()
				if got := volumes(t, l, host.Name, name); !slices.Equal(got, want) {
					t.Errorf("the pool has %q; want %q", got, want)
				}
			}
			// fails applies a plan after the pool became full.
			fails := func(key, does string) {
				t.Helper()
				tf.Plan(t)
				l.Run(t, host.Name, "sh", "-c", fmt.Sprintf(
					"fallocate -l $(($(df --output=avail -B1 %[1]s | tail -n 1) - %[2]d)) %[1]s/filler", at, m.left))
				out := tf.Fail(t, "apply", "planned")
				expect(t, out, "Error: Unable to "+does+" virtual machine",
					": "+key+" = { pool = virtfleet_storage_pool.vms.name", "disks."+key+".pool: ",
					"disk \""+key+"\" in storage pool \""+name+"\"", "on host \""+host.Name+"\" "+m.says,
					"Free space in the storage pool, or use another pool.", "\"virsh pool-refresh\"")
			}
			// free makes room without libvirt, as the error says.
			free := func() {
				t.Helper()
				l.Run(t, host.Name, "rm", at+"/filler")
				if out, err := tf.Try(t, "plan"); err != nil { // libvirt doesn't know of the room.
					expect(t, out, "8Mi left", "\"virsh pool-refresh\" finds it")
				}
				l.Virsh(t, host.Name, "pool-refresh", name)
			}
			tf.Config(t, base)
			tf.Run(t, "apply")

			config("root")
			fails("root", "create")
			has("base", "filler")
			if found := l.State(t, host.Name, name); found != "" {
				t.Errorf("the VM is %s", found)
			}
			if state, _ := tf.State(t, address); state != nil {
				t.Errorf("Terraform knows of a VM: %v", state["id"])
			}
			free()
			tf.Run(t, "apply")
			has("base", name+"-root")
			noChanges(t, tf)

			process := &started{l: l, host: host.Name, name: name}
			if err := process.same(t)(nil); err != nil {
				t.Fatal(err)
			}
			config("root", "more")
			fails("more", "update")
			has("base", "filler", name+"-root")
			for _, form := range [][]string{{"--inactive"}, nil} {
				xml := l.Virsh(t, host.Name, append([]string{"dumpxml", name}, form...)...)
				if strings.Contains(xml, "ua-disk-more") || strings.Contains(xml, "<source file='"+at+"/"+name+"-more") {
					t.Errorf("%q: the VM has the disk:\n%s", form, xml)
				}
			}
			// The user may also give up the disk: nothing is planned that needs room, and nothing stays of it.
			config("root")
			tf.Run(t, "apply")
			has("base", "filler", name+"-root")
			noChanges(t, tf)

			config("root", "more")
			free()
			tf.Run(t, "apply")
			has("base", name+"-more", name+"-root")
			mark := l.Virsh(t, host.Name, "metadata", name, "urn:virtfleet:1", "--config")
			if strings.Contains(mark, "creating") {
				t.Errorf("something is still marked as being created: %s", mark)
			}
			if err := look(t, l, host.Name, name, "ua-disk-more")(nil); err != nil {
				t.Error(err)
			}
			if err := process.same(t)(nil); err != nil {
				t.Error(err)
			}
			noChanges(t, tf)

			tf.Config(t, base)
			tf.Run(t, "apply")
			has("base")
			destroyAndCheck(t, l, tf, name)
			l.Run(t, host.Name, "umount", at)
		})
	}
}

// TestAccVirtualMachine_ownDiskFindsRoom: after the plan, another program fills the storage pool of the host that the
// VM would get, which libvirt doesn't know of. The apply asks libvirt to look again before it decides, and the VM gets
// the other host.
func TestAccVirtualMachine_ownDiskFindsRoom(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	hosts := []*lab.Host{l.StartHost(t), l.StartHost(t)}
	tf, name := acctest.NewCLI(t), lab.Name(t)
	l.RemoveDomain(t, name)
	at := "/var/lib/libvirt/" + name
	block := acctest.Block{Lab: l}
	for _, h := range hosts {
		l.Run(t, h.Name, "mkdir", at)
		l.Run(t, h.Name, "mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", at)
		block.Hosts = append(block.Hosts, acctest.Host{Of: h})
	}
	base := block.String() + fmt.Sprintf("resource \"virtfleet_storage_pool\" \"vms\" {\n  name = %q\n  type = \"dir\"\n"+
		"  target = { path = %q }\n}\n", name, at)
	vm := idleVM(l, name).with(hcl{
		"disks": `{
    root = { pool = virtfleet_storage_pool.vms.name, size = "24Mi", format = "raw", preallocation = "full" }
  }`,
	})
	tf.Config(t, base+vm.String())
	tf.Run(t, "apply")
	state, _ := tf.State(t, address)
	would := fmt.Sprint(state["current_host"])
	tf.Config(t, base)
	tf.Run(t, "apply")
	tf.Config(t, base+vm.String())
	tf.Plan(t)
	l.Run(t, would, "fallocate", "-l", "60MiB", at+"/filler")
	tf.Run(t, "apply", "planned")
	state, _ = tf.State(t, address)
	if now := fmt.Sprint(state["current_host"]); now == would || l.State(t, now, name) != "running" {
		t.Errorf("the VM is on %s, whose pool is full, and %s there", now, l.State(t, now, name))
	}
	if got := volumes(t, l, would, name); !slices.Equal(got, []string{"filler"}) {
		t.Errorf("the full pool has %q", got)
	}
	noChanges(t, tf)
	tf.Run(t, "destroy")
	for _, h := range hosts {
		if left := l.Virsh(t, h.Name, "list", "--all", "--name"); strings.Contains(left, name) {
			t.Errorf("%s still has the VM", h.Name)
		}
		l.Run(t, h.Name, "umount", at)
	}
}

// poolWithImage is a storage pool in a directory of that name below /var/lib/libvirt, and an image in it that is a copy
// of the file.
func poolWithImage(name, file string) string {
	return fmt.Sprintf(`
resource "virtfleet_storage_pool" "vms" {
  name   = %[1]q
  type   = "dir"
  target = { path = "/var/lib/libvirt/%[1]s" }
}
resource "virtfleet_image" "base" {
  name   = "base"
  pool   = virtfleet_storage_pool.vms.name
  source = { file = %[2]q }
}
`, name, file)
}
