package virtualmachine_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// slowCopies makes libvirt on a host wait before it copies with qemu-img, until the returned function is called. begun
// tells whether a copy waits or has waited.
func slowCopies(t *testing.T, l *lab.Lab, host *lab.Host, dir string) (begun func() bool, release func()) {
	t.Helper()
	l.Run(t, host.Name, "sh", "-ec", `mkdir "$0"
cd "$0"
cp /usr/bin/qemu-img real
cat >waits <<END
#!/bin/sh
if [ "\$1" = convert ]; then
	: >$0/begun
	until [ -e $0/go ]; do sleep 0.1; done
fi
exec $0/real "\$@"
END
chmod +x waits
mount --bind waits /usr/bin/qemu-img`, dir)
	return func() bool { return exists(l, host.Name, dir+"/begun") },
		func() { l.Run(t, host.Name, "touch", dir+"/go") }
}

// restoreState puts back a state that Terraform has lost: if it is interrupted twice, it ends even while it writes the
// file, and leaves it without resources.
func restoreState(t *testing.T, tf *acctest.CLI, before []byte) {
	t.Helper()
	file := filepath.Join(tf.Dir, "terraform.tfstate")
	now, err := os.ReadFile(file)
	if err == nil && strings.Contains(string(now), `"type": "virtfleet_`) {
		return
	}
	t.Logf("Terraform has left this state: %q, %v", now, err)
	if err := os.WriteFile(file, before, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestAccVirtualMachine_killedCopy: Terraform and the provider end while libvirt copies an image into a disk, which
// libvirt continues, or the time for the VM is over, and the error says what to set. The next apply begins at once. It
// waits for the copy, which may lack a part, and makes the disk again: for a VM that is being created, and for one that
// runs.
func TestAccVirtualMachine_killedCopy(t *testing.T) {
	t.Parallel()
	interrupt := func(t *testing.T, apply *acctest.Running) {
		t.Helper()
		if err := apply.Interrupt(); err != nil {
			t.Fatal(err)
		}
	}
	twice := func(t *testing.T, apply *acctest.Running) {
		t.Helper()
		interrupt(t, apply)
		lab.Await(t, "Terraform to hear of it", func() bool {
			return strings.Contains(apply.Output(), "Interrupt received")
		})
		interrupt(t, apply)
	}
	late := func(t *testing.T, apply *acctest.Running) {
		t.Helper()
		select {
		case <-apply.Done():
		case <-time.After(soon):
			t.Fatalf("the apply outlasts its time:\n%s", apply.Output())
		}
		said := strings.Join(strings.Fields(apply.Output()), " ")
		if !strings.Contains(said, "raise timeouts.create to more") {
			t.Errorf("the apply doesn't say what to set:\n%s", said)
		}
	}
	kill := func(t *testing.T, apply *acctest.Running) {
		t.Helper()
		if err := apply.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	for moment, m := range map[string]struct {
		// runs says that the VM runs, and gets the disk as a second one.
		runs bool
		end  func(*testing.T, *acctest.Running)
		// timeouts are the VM's when the copy begins.
		timeouts string
	}{
		"a new VM":                    {end: kill},
		"a new VM, interrupted twice": {end: twice},
		"a new VM, too late":          {end: late, timeouts: `{ create = "20s" }`},
		"a running VM":                {runs: true, end: kill},
	} {
		t.Run(moment, func(t *testing.T) {
			t.Parallel()
			l := lab.Open(t)
			host := l.StartHost(t)
			tf := acctest.NewCLI(t)
			name := lab.Name(t)
			at := "/var/lib/libvirt/" + name
			l.RemoveDomain(t, name)
			begun, release := slowCopies(t, l, host, at+"-program")
			base := acctest.Block{Lab: l, Hosts: []acctest.Host{{Of: host}}}.String() + poolWithImage(name, imageFile(t))
			const blank, copied = `{ pool = virtfleet_storage_pool.vms.name, size = "8Mi" }`,
				`{ pool = virtfleet_storage_pool.vms.name, image = virtfleet_image.base.id, clone = "full", size = "48Mi" }`
			config := func(disks, timeouts string) {
				t.Helper()
				tf.Config(t, base+idleVM(l, name).with(hcl{
					"host": quote(host.Name), "disks": disks, "timeouts": timeouts,
				}).String())
			}
			tf.Config(t, base)
			disks, want := `{ root = `+copied+` }`, []string{"base", name + "-root"}
			process := &started{l: l, host: host.Name, name: name}
			if m.runs {
				config(`{ root = `+blank+` }`, "")
				disks, want = `{ root = `+blank+`, more = `+copied+` }`, []string{"base", name + "-more", name + "-root"}
			}
			tf.Run(t, "apply")
			if m.runs {
				process.pid = process.read(t)
			}

			config(disks, m.timeouts)
			state, err := os.ReadFile(filepath.Join(tf.Dir, "terraform.tfstate"))
			if err != nil {
				t.Fatal(err)
			}
			apply := tf.Start(t, "apply")
			waitWhileRunning(t, "the copy", apply, begun)
			m.end(t, apply)
			if out, err := apply.Wait(); err == nil {
				t.Fatalf("the apply continued:\n%s", out)
			}
			restoreState(t, tf, state)
			id := uuidOf(t, l, host.Name, name)

			config(disks, "")
			trace := tf.Trace()
			next := tf.Start(t, "apply")
			waitWhileRunning(t, "libvirt to be waited for", next, func() bool {
				said, _ := os.ReadFile(trace)
				return strings.Contains(string(said), "a storage pool is busy")
			})
			release()
			if out, err := next.Wait(); err != nil {
				t.Fatalf("the next apply: %v\n%s", err, out)
			}
			vm, tainted := tf.State(t, address)
			if vm["id"] != id || tainted || vm["status"] != "Running" {
				t.Errorf("VM %v, tainted %v, %v; begun was %s", vm["id"], tainted, vm["status"], id)
			}
			if m.runs {
				if err := process.same(t)(nil); err != nil {
					t.Error(err)
				}
			}
			if got := volumes(t, l, host.Name, name); !slices.Equal(got, want) {
				t.Errorf("the pool has %q; want %q", got, want)
			}
			fileOf := func(volume string) string {
				files, err := filepath.Glob(host.Path(at + "/" + volume + "-*"))
				if err != nil || len(files) != 1 {
					t.Fatalf("%s: %q, %v", volume, files, err)
				}
				return at + "/" + filepath.Base(files[0])
			}
			made := fileOf(want[1])
			l.Run(t, host.Name, "qemu-img", "compare", "-q", "-U", fileOf(want[0]), made)
			xml := l.Virsh(t, host.Name, "dumpxml", name)
			if err := contains(xml, made); err != nil {
				t.Error(err)
			}
			if strings.Contains(xml, "creating=") || strings.Contains(xml, "<creating") {
				t.Errorf("something is still marked as being created:\n%s", xml)
			}
			noChanges(t, tf)
			destroyAndCheck(t, l, tf, name)
			if left := l.Run(t, host.Name, "sh", "-c", "ls -A "+at+" 2>/dev/null || true"); left != "" {
				t.Errorf("left are %s", left)
			}
		})
	}
}
