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
// names the disk, its line, the pool, the host and what to do. Nothing of the disk is left, and the next apply converges
// once there is room: when the VM is created, and when the disk is added to the running VM.
func TestAccVirtualMachine_ownDiskPoolFull(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	host := l.StartHost(t)
	image := compressedImage(t)
	const content = 24 << 20
	for kind, m := range map[string]struct {
		disk string
		// needs is what the error says that the disk needs.
		needs string
	}{
		"thick": {`size = "24Mi", format = "raw", preallocation = "full"`, fmt.Sprint(content, " are needed")},
		// QEMU has made the file when it finds that there is no room for all of it.
		"thick, qcow2": {`size = "24Mi", preallocation = "full"`, fmt.Sprint(content, " are needed")},
		// libvirt doesn't know what a copy will occupy, and finds the pool full in the middle of it.
		"copy":        {`image = virtfleet_image.base.id, clone = "full"`, "more than"},
		"copy to raw": {`image = virtfleet_image.base.id, clone = "full", format = "raw"`, "more than"},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			tf := acctest.NewCLI(t)
			name := lab.Name(t)
			l.RemoveDomain(t, name)
			at := "/var/lib/libvirt/" + name
			l.Run(t, host.Name, "mkdir", at)
			l.Run(t, host.Name, "mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", at)
			base := acctest.Block{Lab: l, Hosts: []acctest.Host{{Of: host}}}.String() + fmt.Sprintf(`
resource "virtfleet_storage_pool" "vms" {
  name   = %[1]q
  type   = "dir"
  target = { path = %[2]q }
}
resource "virtfleet_image" "base" {
  name   = "base"
  pool   = virtfleet_storage_pool.vms.name
  source = { file = %[3]q }
}
`, name, at, image)
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
				l.Run(t, host.Name, "sh", "-c", "fallocate -l $(($(df --output=avail -B1 "+at+" | tail -n 1) - 8388608)) "+
					at+"/filler")
				out := tf.Fail(t, "apply", "planned")
				expect(t, out, "Error: Unable to "+does+" virtual machine",
					": "+key+" = { pool = virtfleet_storage_pool.vms.name", "disks."+key+".pool: ",
					"disk \""+key+"\" in storage pool \""+name+"\"", "on host \""+host.Name+"\" became full meanwhile. It has 8388608 bytes left now, and "+m.needs,
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
