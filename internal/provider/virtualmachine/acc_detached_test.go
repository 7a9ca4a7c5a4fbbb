package virtualmachine_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccVirtualMachine_detachedAfterRename: an interface whose key was changed while the VM ran, and that a user then
// detached, is attached again. No guest releases it: only the definition has lost it, and gets the same interface
// again. The same if the record of the new key was lost.
func TestAccVirtualMachine_detachedAfterRename(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	tf := acctest.NewCLI(t)
	declare := func(nics string) {
		tf.Config(t, acctest.OneHost(l)+idleVM(l, name).with(hcl{"host": quote("kvm1"), "interfaces": nics}).String())
		tf.Run(t, "apply")
	}
	addresses := func(options ...string) string {
		xml := l.Virsh(t, "kvm1", append([]string{"dumpxml", name}, options...)...)
		return strings.Join(regexp.MustCompile(`<mac address='[^']*'`).FindAllString(xml, -1), " ")
	}
	declare(`{ lan = { network = "default" }, second = { network = "default" } }`)
	declare(`{ lan = { network = "default" }, third = { network = "default", link_up = false } }`)
	process := &started{l: l, host: "kvm1", name: name}
	process.pid = process.read(t)
	was := addresses()
	second := was[strings.LastIndex(was, "52:54:") : len(was)-1]
	for _, forget := range []bool{false, true} {
		// virsh removes it from the definition, and only asks the guest to release it.
		l.Virsh(t, "kvm1", "detach-interface", name, "network", "--live", "--config", "--mac", second)
		if next := addresses("--inactive"); strings.Contains(next, second) {
			t.Fatalf("it should be gone from the definition: %s", next)
		}
		if forget {
			l.Virsh(t, "kvm1", "metadata", name, "urn:virtfleet:1", "--remove", "--live", "--config")
		}
		tf.Run(t, "apply")
		if runs, next := addresses(), addresses("--inactive"); runs != was || next != was {
			t.Errorf("forgotten %v: what runs has %s, the definition has %s, want %s", forget, runs, next, was)
		}
		noChanges(t, tf)
		if state, _ := tf.State(t, address); state["restart_required"] != false {
			t.Errorf("forgotten %v: restart_required is %v", forget, state["restart_required"])
		}
	}
	if err := process.same(t)(nil); err != nil {
		t.Error(err)
	}
	destroyAndCheck(t, l, tf, name)
}

// TestAccVirtualMachine_diskDetachedForNextStart: a user detaches the disks of a running VM, and the drive of its
// cloud-init medium, from its definition alone. The apply gives the definition the same disks again, and doesn't touch
// the guest. If the drive is detached from the running VM alone, the plan says so, and the next start undoes it.
func TestAccVirtualMachine_diskDetachedForNextStart(t *testing.T) {
	t.Parallel()
	const host = "kvm1"
	l := lab.Open(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	tf := acctest.NewCLI(t)
	tf.Config(t, acctest.OneHost(l)+fmt.Sprintf(`
resource "virtfleet_volume" "data" {
  name = "%[1]s-data"
  pool = "default"
  host = %[2]q
  size = "1Mi"
}
`, name, host)+idleVM(l, name).with(hcl{
		"host":       quote(host),
		"disks":      `{ logs = { pool = "default", size = "1Mi" }, data = { volume = virtfleet_volume.data.id } }`,
		"cloud_init": `{ user_data = "#cloud-config\n", pool = "default" }`,
	}).String())
	tf.Run(t, "apply")
	process := &started{l: l, host: host, name: name}
	process.pid = process.read(t)
	disks := func(options ...string) []string {
		xml := l.Virsh(t, host, append([]string{"dumpxml", name}, options...)...)
		return slices.Sorted(slices.Values(regexp.MustCompile(
			`<source file='[^']*'|<target dev='[^']*'|<alias name='ua-disk[^']*'`).FindAllString(xml, -1)))
	}
	was := disks("--inactive")
	for _, targets := range [][]string{{"vda"}, {"vdb"}, {"vda", "vdb"}, {"sda"}} {
		for _, target := range targets {
			l.Virsh(t, host, "detach-disk", name, target, "--config")
		}
		if now := disks("--inactive"); len(now) != len(was)-3*len(targets) {
			t.Fatalf("the definition should have lost %v: %v", targets, now)
		}
		tf.Run(t, "apply")
		if now := disks("--inactive"); !slices.Equal(now, was) {
			t.Errorf("without %v the definition has %v, want %v", targets, now, was)
		}
		noChanges(t, tf)
		if state, _ := tf.State(t, address); state["restart_required"] != false {
			t.Errorf("without %v restart_required is %v", targets, state["restart_required"])
		}
	}

	l.Virsh(t, host, "detach-disk", name, "sda", "--live")
	expect(t, tf.Run(t, "plan"), "1 to change", "Warning: Running virtual machine differs from its definition",
		"disks.cloud-init: Drives can't be plugged into or out of a running VM")
	tf.Run(t, "apply")
	noChanges(t, tf)
	if state, _ := tf.State(t, address); state["restart_required"] != true {
		t.Errorf("without its drive restart_required is %v", state["restart_required"])
	}
	if err := process.same(t)(nil); err != nil {
		t.Error(err)
	}
	l.Virsh(t, host, "destroy", name)
	l.Virsh(t, host, "start", name)
	noChanges(t, tf)
	if now := disks(); !slices.Equal(now, was) {
		t.Errorf("after a start the VM has %v, want %v", now, was)
	}
	destroyAndCheck(t, l, tf, name)
}
