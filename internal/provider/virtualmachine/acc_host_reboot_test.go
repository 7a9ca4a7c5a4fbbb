package virtualmachine_test

import (
	"fmt"
	"maps"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccVirtualMachine_hostReboots: a host loses its power and boots again. The media of cloud-init and all other
// volumes are there as they were, of a VM that starts with the host and of one that is off, and nothing is planned. The
// VM that is off starts with its medium afterwards.
func TestAccVirtualMachine_hostReboots(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	host := l.StartHost(t)
	tf := acctest.NewCLI(t)
	pool := lab.Name(t)
	on, off := pool+"-on", pool+"-off"
	at := "/var/lib/libvirt/" + pool
	image := imageFile(t)
	seeds := map[string]string{on: "#cloud-config\npassword: on\n", off: "#cloud-config\npassword: off\n"}
	config := func(strategy string) {
		t.Helper()
		all := acctest.Block{Lab: l, Hosts: []acctest.Host{{Of: host}}}.String() + fmt.Sprintf(`
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
resource "virtfleet_volume" "data" {
  name = "data"
  pool = virtfleet_storage_pool.vms.name
  size = "8Mi"
}
`, pool, at, image)
		for name, strategy := range map[string]string{on: "Always", off: strategy} {
			data := ""
			if name == on {
				data = ", data = { volume = virtfleet_volume.data.id }"
			}
			all += idleVM(l, name).with(hcl{
				"run_strategy": quote(strategy), "cloud_init": fmt.Sprintf("{ user_data = %q }", seeds[name]),
				"disks": "{ root = { pool = virtfleet_storage_pool.vms.name, image = virtfleet_image.base.id }" + data + " }",
			}).named(name[len(pool)+1:])
		}
		tf.Config(t, all)
	}
	// is what there is of the volumes, and of the media that the VMs have.
	is := func() map[string]string {
		t.Helper()
		seen := map[string]string{"volumes": l.Run(t, host.Name, "sh", "-c", "cd "+at+" && stat -c '%n %i %s %a' *")}
		for name, userData := range seeds {
			files, mode, err := seedIn(t, l, host.Name, name)
			if err != nil || files["user-data"] != userData {
				t.Errorf("the medium of %s has %q, %v", name, files, err)
			}
			seen[name] = fmt.Sprintf("%s %q", mode, files)
		}
		return seen
	}
	config("Halted")
	tf.Run(t, "apply")
	noChanges(t, tf)
	before := is()

	l.PowerOff(t, host)()
	lab.Await(t, "the host to start its VM", func() bool { return l.State(t, host.Name, on) == "running" })
	if now := is(); !maps.Equal(now, before) {
		t.Errorf("after the boot there is\n%v\nand was\n%v", now, before)
	}
	noChanges(t, tf)

	config("Always")
	for resource, change := range tf.Plan(t) {
		want := map[bool]string{true: "update", false: "no-op"}[resource == "virtfleet_virtual_machine.off"]
		if change.Actions != want {
			t.Errorf("%s is planned as %s; want %s", resource, change.Actions, want)
		}
	}
	tf.Run(t, "apply")
	if state := l.State(t, host.Name, off); state != "running" {
		t.Errorf("the other VM is %q", state)
	}
	if now := is(); !maps.Equal(now, before) {
		t.Errorf("after the start there is\n%v\nand was\n%v", now, before)
	}
	noChanges(t, tf)
	tf.Run(t, "destroy")
	for _, name := range []string{on, off} {
		if state := l.State(t, host.Name, name); state != "" {
			t.Errorf("%s is still there: %s", name, state)
		}
	}
	if left := l.Run(t, host.Name, "ls", "-A", at); left != "" {
		t.Errorf("left are %s", left)
	}
}
