package virtualmachine_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccVirtualMachine_olderCopy: a new VM whose disk is a file that several hosts have, and that differs, as after a
// move by hand, is placed on none of them until its configuration names the host: an older file never becomes its disk
// by chance. A host that no VM may be placed on has a say, too. If the host is named, the plan warns. What is the same
// on all hosts refuses nothing.
func TestAccVirtualMachine_olderCopy(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	tf := acctest.NewCLI(t)
	file := l.Image(t, "kvm1", name+".raw", "raw", 1<<20)
	l.Image(t, "kvm2", name+".raw", "raw", 1<<20)
	write := func(host, at string) {
		l.Run(t, host, "qemu-io", "-f", "raw", "-c", "write -q -P 7 0 64k", file)
		l.Run(t, host, "touch", "-d", at, file)
	}
	write("kvm1", "2026-01-02T03:04:05.5Z")
	write("kvm2", "2026-02-03T04:05:06.7Z")
	declare := func(settings, disk string, more hcl) {
		tf.Config(t, acctest.Block{Lab: l, Hosts: []acctest.Host{
			{Of: l.Host("kvm1"), Settings: "labels = { at = \"one\" }"}, {Of: l.Host("kvm2"), Settings: settings},
		}}.String()+idleVM(l, name).with(hcl{
			"run_strategy": quote("Halted"), "disks": "{ root = { " + disk + `, format = "raw" } }`,
		}).with(more).String())
	}
	none := func() {
		t.Helper()
		if err := onHosts(t, l, name, "", "")(nil); err != nil {
			t.Error(err)
		}
	}
	plain := fmt.Sprintf("file = %q", file)
	refused := []string{
		"Error: No host can take the VM", `different files for its disk "root", ` + file,
		`host "kvm1": 1Mi`, "last written 2026-01-02 03:04:05.500 UTC",
		`host "kvm2": 1Mi`, "last written 2026-02-03 04:05:06.700 UTC",
		"set host to its host", "remove the other files",
	}
	for _, more := range []hcl{nil, {"run_strategy": quote("Always")}} {
		declare("", plain, more)
		expect(t, tf.Fail(t, "plan"), refused...)
	}
	declare("", fmt.Sprintf("volume = %q", file), nil)
	l.RefreshPool(t, "kvm1")
	l.RefreshPool(t, "kvm2")
	expect(t, tf.Fail(t, "plan"), refused...)
	// The pools of one name are in other directories, too.
	volume := fmt.Sprintf("volume = %q", "default/"+name+".raw")
	refused[1] = `different files for its disk "root", default/` + name + ".raw"
	declare("", volume, nil)
	expect(t, tf.Fail(t, "plan"), refused...)
	refused[1] = `different files for its disk "root", ` + file
	declare("schedulable = false", plain, nil)
	expect(t, tf.Fail(t, "plan"), refused...)
	declare("", plain, hcl{"placement": `{ host_labels = { at = "one" } }`})
	expect(t, tf.Fail(t, "plan"), refused...)
	none()

	// The older file may come between plan and apply.
	l.Run(t, "kvm1", "mv", file, file+".away")
	declare("", plain, nil)
	tf.Plan(t)
	l.Run(t, "kvm1", "mv", file+".away", file)
	expect(t, tf.Fail(t, "apply", "planned"), refused[1:]...)
	none()

	declare("", volume, nil)
	l.Run(t, "kvm1", "mv", file, file+".away")
	l.RefreshPool(t, "kvm1")
	tf.Plan(t)
	l.Run(t, "kvm1", "mv", file+".away", file)
	l.RefreshPool(t, "kvm1")
	expect(t, tf.Fail(t, "apply", "planned"), refused[2:]...)
	none()

	// The same apply may create the volume on one host, while another host has an older one of its name. Volumes that it
	// creates on several hosts are alike.
	var created strings.Builder
	create := func(host, volume string) {
		fmt.Fprintf(&created, "resource \"virtfleet_volume\" %q {\n  name = %q\n  pool = \"default\"\n  size = \"1Mi\"\n"+
			"  host = %[1]q\n  format = \"raw\"\n}\n", host, name+"-new.raw")
		hosts := []acctest.Host{{Of: l.Host("kvm1")}, {Of: l.Host("kvm2")}}
		tf.Config(t, acctest.Block{Lab: l, Hosts: hosts}.String()+created.String()+idleVM(l, name).with(hcl{
			"run_strategy": quote("Halted"), "disks": "{ root = { volume = " + volume + " } }",
			"depends_on": "[virtfleet_volume." + host + "]",
		}).String())
	}
	older := l.Image(t, "kvm2", name+"-new.raw", "raw", 1<<20)
	l.RefreshPool(t, "kvm2")
	create("kvm1", quote("default/"+name+"-new.raw"))
	expect(t, tf.Fail(t, "plan"), refused[0], `host "kvm1": a new volume, which isn't created yet`, `host "kvm2": 1Mi`)
	l.Run(t, "kvm2", "rm", older)
	l.RefreshPool(t, "kvm2")
	create("kvm2", "virtfleet_volume.kvm1.id")
	tf.Run(t, "apply")
	noChanges(t, tf)
	destroyAndCheck(t, l, tf, name)

	// Where the configuration says enough, it may be either.
	warning := "Warning: Disks are used again: " + name
	for host, disk := range map[string]string{"kvm1": plain, "kvm2": volume} {
		declare("", disk, hcl{"host": quote(host)})
		expect(t, tf.Run(t, "plan"), warning, `is created on host "`+host+`"`, refused[2], refused[3], refused[4], refused[5],
			"set host to its host")
	}
	for _, other := range []string{", read_only = true", ", shared = true", ", transient = true"} {
		declare("", plain+other, nil)
		if out := tf.Run(t, "plan"); strings.Contains(out, warning) {
			t.Errorf("%s: %s", other, out)
		}
	}

	// So does a copy that keeps the time, down to the second.
	l.Run(t, "kvm2", "touch", "-d", "2026-01-02T03:04:05Z", file)
	declare("", volume, nil)
	tf.Run(t, "apply")
	noChanges(t, tf)
	destroyAndCheck(t, l, tf, name)

	// What is on devices isn't compared. The hosts of the lab share them.
	device := l.LoopDevice(t, "kvm1", name, 1<<20)
	declare("", fmt.Sprintf("block = %q", device), nil)
	expect(t, tf.Run(t, "plan"), warning, `hosts "kvm1", "kvm2" have a block device `+device, "is created on host",
		"disks.root.shared = true")
	for _, more := range []string{", shared = true", ", read_only = true"} {
		declare("", fmt.Sprintf("block = %q", device)+more, nil)
		if out := tf.Run(t, "plan"); strings.Contains(out, warning) {
			t.Errorf("%s: %s", more, out)
		}
	}

	// The hosts of the lab share what isn't libvirt's own.
	shared := filepath.Join(t.TempDir(), "disk")
	l.Run(t, "kvm1", "qemu-img", "create", "-q", "-f", "raw", shared, "1M")
	declare("", fmt.Sprintf("file = %q", shared), nil)
	tf.Run(t, "apply")
	noChanges(t, tf)
	destroyAndCheck(t, l, tf, name)
	if !strings.Contains(l.Run(t, "kvm1", "stat", "-c", "%s", shared), "1048576") {
		t.Error("the disk, which wasn't created with the VM, is gone")
	}
}
