package virtualmachine_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccVirtualMachine_absentFile: a file that isn't there is told by the plan, of a change too; a VM that stays
// off may wait for it. What another resource makes isn't missed.
func TestAccVirtualMachine_absentFile(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	tf := acctest.NewCLI(t)
	const host = "kvm1"
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	none := "/var/lib/libvirt/images/" + name + "-none.raw"
	vm := func(file string) hcl {
		return idleVM(l, name).with(hcl{"host": quote(host), "disks": `{ root = { file = ` + file + `, format = "raw" } }`})
	}
	refused := []string{
		"Error: No host can take the VM", "because of disks.root.file", `host "` + host + `": it has no file "` + none,
		"take the path from an attribute of that resource that is unknown until it exists",
	}
	tf.Config(t, acctest.OneHost(l)+vm(quote(none)).String())
	expect(t, tf.Fail(t, "plan"), refused...)

	off := vm(quote(none)).with(hcl{"run_strategy": quote("Halted")})
	tf.Config(t, acctest.OneHost(l)+off.String())
	expect(t, tf.Run(t, "apply"), "Warning: File not found on the host", none, `host "`+host+`" has no such file`)
	if out, empty := tf.Empty(t); !empty || strings.Contains(out, none) {
		t.Errorf("what isn't changed isn't looked for:\n%s", out)
	}
	tf.Run(t, "destroy")

	// The image is made by the same apply, and its path isn't known before.
	image := l.Image(t, host, name+".raw", "raw", 1<<20)
	tf.Config(t, acctest.OneHost(l)+"resource \"terraform_data\" \"image\" {\n  input = "+quote(image)+"\n}\n"+
		vm("terraform_data.image.output").String())
	tf.Run(t, "apply")
	noChanges(t, tf)

	more := vm(quote(image)).with(hcl{"disks": `{
    root = { file = ` + quote(image) + `, format = "raw" }
    more = { file = ` + quote(none) + `, format = "raw" }
  }`})
	tf.Config(t, acctest.OneHost(l)+more.String())
	expect(t, tf.Fail(t, "plan"), "Error: Host can't take the change", "disks.more.file", "it has no file", none)
	l.Image(t, host, name+"-none.raw", "raw", 1<<20)
	tf.Run(t, "apply")
	noChanges(t, tf)

	// What a running VM has isn't looked for: it holds it open.
	l.Run(t, host, "rm", none)
	tf.Config(t, acctest.OneHost(l)+more.with(hcl{"labels": `{ app = "web" }`}).String())
	tf.Run(t, "apply")
	noChanges(t, tf)
	destroyAndCheck(t, l, tf, name)
}

// TestAccVirtualMachine_absentPath: a directory that the VM shares and a block device that it has limits for are looked
// for on the host as the files of disks are: in the plan of a new VM and of a change, in the choice of a host, and
// before a move. A VM that stays off is warned of.
func TestAccVirtualMachine_absentPath(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	tf := acctest.NewCLI(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	shared := "/var/lib/libvirt/images/" + name + "-shared"
	l.Run(t, "kvm2", "mkdir", shared)
	t.Cleanup(func() { _, _ = l.Host("kvm2").Run(context.WithoutCancel(t.Context()), "rmdir", shared) })
	share := hcl{"devices": fmt.Sprintf(`{ filesystems = { a = { target = "a", source = %q, driver = "9p" } } }`, shared)}
	limit := hcl{"platform": `{ resources = { blkio_devices = { "/dev/lacking" = { read_bytes_sec = 1000000 } } } }`}
	vm := idleVM(l, name)
	config := func(changes ...hcl) {
		all := vm
		for _, change := range changes {
			all = all.with(change)
		}
		tf.Config(t, acctest.Config(l)+all.String())
	}
	on := func(host string) hcl { return hcl{"host": quote(host)} }
	off := hcl{"run_strategy": quote("Halted")}

	config(on("kvm1"), share)
	expect(t, tf.Fail(t, "plan"), "Error: No host can take the VM", "because of devices.filesystems.a.source",
		`host "kvm1": it has no directory "`+shared+`"`, "create the directory on the host first")
	config(on("kvm1"), limit)
	expect(t, tf.Fail(t, "plan"), "Error: No host can take the VM", "because of platform.resources.blkio_devices",
		`host "kvm1": it has no block device "/dev/lacking"`, "create the block device on the host first")

	// Where there is a choice, the host that has it is taken.
	config(share, off)
	tf.Run(t, "apply")
	noChanges(t, tf)
	if state, _ := tf.State(t, address); state["current_host"] != "kvm2" {
		t.Errorf("it is on %s, and its directory on kvm2", state["current_host"])
	}

	config(share, off, on("kvm1"))
	expect(t, tf.Fail(t, "plan"), "can't be moved: HostResourcesNotAvailable",
		`host "kvm1" has no directory "`+shared+`"`, "remove it from devices.filesystems")

	config(share, limit)
	expect(t, tf.Fail(t, "plan"), "Error: Host can't take the change",
		`host "kvm2": it has no block device "/dev/lacking"`)
	config(share, off, limit)
	expect(t, tf.Run(t, "apply"), "Warning: File not found on the host",
		`platform.resources.blkio_devices["/dev/lacking"]`, `host "kvm2" has no such block device`)
	noChanges(t, tf)
	destroyAndCheck(t, l, tf, name)
}

// TestAccVirtualMachine_fileChoosesHost: a VM goes where its disk is, and one that is off would rather.
func TestAccVirtualMachine_fileChoosesHost(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	for name, host := range map[string]string{"Always": "kvm2", "Halted": "kvm1"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tf := acctest.NewCLI(t)
			vm := lab.Name(t)
			l.RemoveDomain(t, vm)
			image := l.Image(t, host, vm+".raw", "raw", 1<<20)
			tf.Config(t, acctest.Config(l)+idleVM(l, vm).with(hcl{
				"run_strategy": quote(name), "disks": `{ root = { file = ` + quote(image) + `, format = "raw" } }`,
			}).String())
			if out := tf.Run(t, "apply"); strings.Contains(out, "File not found") {
				t.Errorf("the file is there:\n%s", out)
			}
			if state, _ := tf.State(t, address); state["current_host"] != host {
				t.Errorf("it is on %s, and its disk on %s", state["current_host"], host)
			}
			destroyAndCheck(t, l, tf, vm)
		})
	}
}

// TestAccVirtualMachine_volumeChoosesHost: a VM goes where the volume of its disk is, whether the volume is created by
// the same apply or was there before. Each host is the one that it would not choose without the volume, in one case.
func TestAccVirtualMachine_volumeChoosesHost(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	for _, strategy := range []string{"Always", "Halted"} {
		for _, host := range []string{"kvm1", "kvm2"} {
			t.Run(strategy+" "+host, func(t *testing.T) {
				t.Parallel()
				tf := acctest.NewCLI(t)
				name := lab.Name(t)
				l.RemoveDomain(t, name)
				storage := acctest.Config(l) + fmt.Sprintf(`
resource "virtfleet_storage_pool" "vms" {
  name   = %[1]q
  type   = "dir"
  target = { path = "/var/lib/libvirt/%[1]s" }
  hosts  = [%[2]q]
}
resource "virtfleet_volume" "data" {
  name = "data"
  pool = virtfleet_storage_pool.vms.name
  host = %[2]q
  size = "1Mi"
}
`, name, host)
				vm := idleVM(l, name).with(hcl{
					"run_strategy": quote(strategy), "disks": "{ root = { volume = virtfleet_volume.data.id } }",
				}).String()
				is := map[string]string{"Always": "running", "Halted": "shut off"}[strategy]
				there := map[string]string{host: is}
				for _, when := range []string{"created by the same apply", "there before"} {
					tf.Config(t, storage+vm)
					tf.Run(t, "apply")
					if state, _ := tf.State(t, address); state["current_host"] != host {
						t.Errorf("%s: the VM is on %s, and its volume on %s", when, state["current_host"], host)
					}
					if err := onHosts(t, l, name, there["kvm1"], there["kvm2"])(nil); err != nil {
						t.Errorf("%s: %v", when, err)
					}
					if err := contains(l.Virsh(t, host, "domblklist", name), "/var/lib/libvirt/"+name+"/data"); err != nil {
						t.Errorf("%s: %v", when, err)
					}
					noChanges(t, tf)
					tf.Config(t, storage)
					tf.Run(t, "apply")
				}
				destroyAndCheck(t, l, tf, name)
			})
		}
	}
}
