package virtualmachine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccVirtualMachine_goneDisk: the file of a disk that was deleted by hand while its VM was off is missed by the
// plan of a start, whatever the disk is declared as, and no disk is created again by itself. A VM that stays off isn't
// looked at. What the error says gives the VM a new disk. A VM that holds a deleted file open isn't restarted.
func TestAccVirtualMachine_goneDisk(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	tf := acctest.NewCLI(t)
	file := l.Image(t, "kvm1", name+"-file.raw", "raw", 1<<20)
	volume := l.Image(t, "kvm1", name+"-volume.raw", "raw", 1<<20)
	own := "    own = { pool = virtfleet_storage_pool.vms.name, size = \"1Mi\" }\n"
	declare := func(strategy, own string, more hcl) {
		tf.Config(t, acctest.OneHost(l)+fmt.Sprintf(
			"resource \"virtfleet_storage_pool\" \"vms\" {\n  name = %q\n  type = \"dir\"\n  target = { path = %q }\n}\n",
			name, "/var/lib/libvirt/"+name)+idleVM(l, name).with(hcl{
			"host": quote("kvm1"), "run_strategy": quote(strategy),
			"disks": fmt.Sprintf("{\n    file = { file = %q, format = \"raw\" }\n"+
				"    volume = { volume = %q, format = \"raw\" }\n%s  }", file, volume, own),
			"depends_on": "[virtfleet_storage_pool.vms]",
		}).with(more).String())
	}
	declare("Halted", own, nil)
	tf.Run(t, "apply")
	state, _ := tf.State(t, address)
	disks, _ := state["disks"].(map[string]any)
	disk, _ := disks["own"].(map[string]any)
	made := fmt.Sprint(disk["path"])

	files := map[string]string{"own.pool": made, "file.file": file, "volume.volume": volume}
	for _, at := range files {
		l.Run(t, "kvm1", "mv", at, at+".away")
	}
	noChanges(t, tf)
	declare("Always", own, nil)
	out := tf.Fail(t, "plan")
	for attribute, at := range files {
		key, _, _ := strings.Cut(attribute, ".")
		expect(t, out, "because of disks."+attribute+":", `host "kvm1": it has no file "`+at+`", which is disk "`+key+
			`" of the VM, so that the VM can't be started`, "Put the file back")
	}
	if state := strings.TrimSpace(l.Virsh(t, "kvm1", "domstate", name)); state != "shut off" {
		t.Errorf("the VM is %s", state)
	}
	if got := volumes(t, l, "kvm1", name); slices.Contains(got, name+"-own") {
		t.Errorf("the disk was created again: %q", got)
	}

	// Two of them are put back, the third is given up.
	for _, at := range []string{file, volume} {
		l.Run(t, "kvm1", "mv", at+".away", at)
	}
	l.RefreshPool(t, "kvm1") // Another test may have done so while they were away.
	expect(t, tf.Fail(t, "apply"), "because of disks.own.pool:", made, "remove the disk from disks as a change of its own",
		"then declare it again")
	// Terraform plans the change also if it is to replace the VM. Of a tainted VM, it plans only the new one.
	expect(t, tf.Fail(t, "plan", "-replace="+address), "because of disks.own.pool:", `"terraform taint"`)
	tf.Run(t, "taint", address)
	if got := tf.Actions(t)[address]; got != "delete create" {
		t.Errorf("the plan for the tainted VM is %q", got)
	}
	tf.Run(t, "untaint", address)
	declare("Halted", "", nil)
	tf.Run(t, "apply")
	declare("Always", own, nil)
	tf.Run(t, "apply")
	noChanges(t, tf)
	if got := volumes(t, l, "kvm1", name); !slices.Contains(got, name+"-own") {
		t.Errorf("the storage pool has %q", got)
	}

	// What the running VM holds open is gone once it is off.
	l.Run(t, "kvm1", "mv", file, file+".away")
	restarted := hcl{"cpu": "{ vcpus = 2 }", "update_policy": quote("Restart")}
	declare("Always", own, restarted)
	expect(t, tf.Fail(t, "apply"), "because of disks.file.file:", file, "is lost when the VM is shut down", "blockcopy")
	if state := strings.TrimSpace(l.Virsh(t, "kvm1", "domstate", name)); state != "running" {
		t.Errorf("the VM is %s", state)
	}
	l.Run(t, "kvm1", "mv", file+".away", file)
	tf.Run(t, "apply")
	noChanges(t, tf)
	l.Run(t, "kvm1", "sh", "-c", "rm /var/lib/libvirt/"+name+"/*.away")
	destroyAndCheck(t, l, tf, name)
}

// TestAccVirtualMachine_goneMedium: a first-boot medium that was deleted by hand while its VM was off, with libvirt or
// without it, is made again before the VM starts, as the plan says.
func TestAccVirtualMachine_goneMedium(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	tf := acctest.NewCLI(t)
	const secret, warning = "correct-horse", "Warning: File not found on the host"
	declare := func(strategy string) {
		tf.Config(t, acctest.OneHost(l)+fmt.Sprintf(
			"resource \"virtfleet_storage_pool\" \"vms\" {\n  name = %q\n  type = \"dir\"\n  target = { path = %q }\n}\n",
			name, "/var/lib/libvirt/"+name)+idleVM(l, name).with(hcl{
			"host": quote("kvm1"), "run_strategy": quote(strategy),
			"disks":      `{ root = { pool = virtfleet_storage_pool.vms.name, size = "1Mi" } }`,
			"cloud_init": fmt.Sprintf(`{ user_data_wo = "#cloud-config\npassword: %s\n", user_data_wo_version = "1" }`, secret),
			"ignition":   `{ config = "{\"ignition\":{\"version\":\"3.4.0\"}}" }`,
		}).String())
	}
	volume := func(kind string) string {
		t.Helper()
		for _, line := range strings.Split(l.Virsh(t, "kvm1", "vol-list", name), "\n") {
			if f := strings.Fields(line); len(f) == 2 && strings.HasPrefix(f[0], name+"-"+kind) {
				return f[0]
			}
		}
		t.Fatalf("the storage pool has no %s", kind)
		return ""
	}
	declare("Halted")
	tf.Run(t, "apply")
	all := volumes(t, l, "kvm1", name)
	for _, remove := range []func(volume string){
		func(volume string) { l.Virsh(t, "kvm1", "vol-delete", "--pool", name, volume) },
		func(volume string) { l.Run(t, "kvm1", "rm", "/var/lib/libvirt/"+name+"/"+volume) },
	} {
		medium, ignition := volume("cloud-init"), volume("ignition")
		remove(medium)
		remove(ignition)
		declare("Always")
		out := tf.Run(t, "plan")
		expect(t, out, warning, "They are created again", "the cloud-init medium: "+name+"/"+medium,
			"the Ignition configuration: "+name+"/"+ignition)
		tf.Run(t, "apply")
		noChanges(t, tf)
		files, mode, err := seedIn(t, l, "kvm1", name)
		if err != nil || !strings.Contains(files["user-data"], secret) || !strings.HasPrefix(mode, "600 ") {
			t.Errorf("the medium has %q, mode %q: %v", files, mode, err)
		}
		if got := volumes(t, l, "kvm1", name); !slices.Equal(got, all) {
			t.Errorf("the storage pool has %q, and had %q", got, all)
		}
		if state := strings.TrimSpace(l.Virsh(t, "kvm1", "domstate", name)); state != "running" {
			t.Errorf("the VM is %s", state)
		}
		declare("Halted")
		if out := tf.Run(t, "apply"); strings.Contains(out, warning) {
			t.Errorf("nothing is missing: %s", out)
		}
	}
	destroyAndCheck(t, l, tf, name)
}

// TestAccVirtualMachine_goneVolumeAgain: a volume that was lost while its VM was off, and that the same change creates
// again, doesn't keep the VM from being started, however the VM refers to it.
func TestAccVirtualMachine_goneVolumeAgain(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	tf := acctest.NewCLI(t)
	declare := func(strategy, disk string) {
		tf.Config(t, acctest.OneHost(l)+fmt.Sprintf(`
resource "virtfleet_storage_pool" "vms" {
  name   = %[1]q
  type   = "dir"
  target = { path = "/var/lib/libvirt/%[1]s" }
}

resource "virtfleet_volume" "root" {
  host = "kvm1"
  pool = virtfleet_storage_pool.vms.name
  name = "root.raw"
  size = "1Mi"
}
`, name)+idleVM(l, name).with(hcl{
			"host": quote("kvm1"), "run_strategy": quote(strategy), "depends_on": "[virtfleet_volume.root]",
			"disks": "{ root = { " + disk + ", format = \"raw\" } }",
		}).String())
	}
	for _, disk := range []string{
		"volume = virtfleet_volume.root.id", "volume = " + quote(name+"/root.raw"), "file = virtfleet_volume.root.path",
	} {
		declare("Halted", disk)
		tf.Run(t, "apply")
		l.Virsh(t, "kvm1", "vol-delete", "--pool", name, "root.raw")
		tf.Run(t, "state", "rm", "virtfleet_volume.root")
		declare("Always", disk)
		tf.Run(t, "apply")
		noChanges(t, tf)
		if state := strings.TrimSpace(l.Virsh(t, "kvm1", "domstate", name)); state != "running" {
			t.Errorf("%s: the VM is %s", disk, state)
		}
	}
	destroyAndCheck(t, l, tf, name)
}
