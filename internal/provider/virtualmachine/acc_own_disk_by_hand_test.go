package virtualmachine_test

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccVirtualMachine_ownDiskDetachedByHand: a disk that was made with the VM, and that a user has detached, is
// attached again while it is declared, and is the same one under a new key. The plan names a file that a user has put
// in its place. When it isn't declared, it is never deleted by an apply whose plan doesn't say so. When a user has
// removed the whole definition, the plan says where the data is, and the next VM can have it.
func TestAccVirtualMachine_ownDiskDetachedByHand(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	tf := acctest.NewCLI(t)
	root, data := `root = { pool = POOL, size = "1Mi" }`, `data = { pool = POOL, size = "2Mi" }`
	declare := func(label string, disks ...string) {
		tf.Config(t, acctest.OneHost(l)+fmt.Sprintf(
			"resource \"virtfleet_storage_pool\" \"vms\" {\n  name = %q\n  type = \"dir\"\n  target = { path = %q }\n}\n",
			name, "/var/lib/libvirt/"+name)+idleVM(l, name).with(hcl{
			"host": quote("kvm1"), "run_strategy": quote("Halted"), "labels": fmt.Sprintf("{ step = %q }", label),
			"disks": strings.ReplaceAll("{\n"+strings.Join(disks, "\n")+"\n}", "POOL", "virtfleet_storage_pool.vms.name"),
		}).String())
	}
	has := func(want ...string) {
		t.Helper()
		for i := range want {
			want[i] = name + "-" + want[i]
		}
		if got := volumes(t, l, "kvm1", name); !slices.Equal(got, want) {
			t.Fatalf("the storage pool has %q; want %q", got, want)
		}
	}
	file := func(key string) string {
		t.Helper()
		state, _ := tf.State(t, address)
		disks, _ := state["disks"].(map[string]any)
		disk, _ := disks[key].(map[string]any)
		return fmt.Sprint(disk["path"])
	}

	declare("a", root, data, `other = { pool = POOL, size = "2Mi", serial = "OTHER" }`)
	tf.Run(t, "apply")
	was, other := file("data"), file("other")
	l.Run(t, "kvm1", "qemu-io", "-f", "qcow2", "-c", "write -q -P 7 0 64k", was)
	detach := func() { l.Virsh(t, "kvm1", "detach-disk", name, was, "--config") }
	detach()
	tf.Run(t, "apply")
	if now := file("data"); now != was {
		t.Errorf("the disk is %s, and was %s", now, was)
	}
	noChanges(t, tf)

	// The definition of a VM that is off has another file. Only what the file is based on tells it from a snapshot.
	replaced := func(said string, file ...string) {
		t.Helper()
		out := tf.Run(t, "plan")
		if strings.Contains(out, "left its volume") != (said != "") {
			t.Fatalf("the plan says of a disk that has left its volume: %s", out)
		}
		expect(t, out, append([]string{said}, file...)...)
	}
	use := func(now, then string) {
		t.Helper()
		definition := l.Virsh(t, "kvm1", "dumpxml", "--inactive", name)
		definition = strings.ReplaceAll(definition, "<source file='"+now+"'", "<source file='"+then+"'")
		l.Virsh(t, "kvm1", "define", writeDeviceXML(t, definition))
	}
	const left, may = "Disk has left its volume", "Disk may have left its volume"
	foreign, overlay := was+".by-hand", was+".overlay"
	l.Run(t, "kvm1", "qemu-img", "create", "-q", "-f", "qcow2", foreign, "2M")
	use(was, foreign)
	replaced(may, was, foreign)
	l.Virsh(t, "kvm1", "pool-refresh", name)
	replaced(left, was, foreign)
	l.Run(t, "kvm1", "rm", foreign)
	l.Run(t, "kvm1", "qemu-img", "create", "-q", "-f", "qcow2", "-b", was, "-F", "qcow2", overlay)
	use(foreign, overlay)
	l.Virsh(t, "kvm1", "pool-refresh", name)
	replaced("")
	use(overlay, was)
	l.Run(t, "kvm1", "rm", overlay)
	l.Virsh(t, "kvm1", "pool-refresh", name)
	replaced("")

	// Renamed while another one of its size is removed, it keeps its data.
	declare("a", root, strings.Replace(data, "data", "db", 1))
	expect(t, tf.Run(t, "apply"), "- disks.other: "+other, "disks.db is disks.data until now: "+was)
	has("data", "root")
	if now := file("db"); now != was {
		t.Errorf("the disk is %s, and was %s", now, was)
	}
	l.Run(t, "kvm1", "qemu-io", "-f", "qcow2", "-c", "read -q -P 7 0 64k", was)
	noChanges(t, tf)

	detach()
	declare("a", root)
	noChanges(t, tf)
	expect(t, tf.Run(t, "plan", "-destroy"), "- disks.db: "+was+", which a user has detached")
	declare("b", root)
	const kept = "Disks of the virtual machine are kept"
	expect(t, tf.Run(t, "plan"), kept, was)
	expect(t, tf.Run(t, "apply"), kept, was)
	noChanges(t, tf)
	has("data", "root")

	// A disk of the same key is a new one, and the plan names the one that was kept.
	declare("b", root, data)
	expect(t, tf.Run(t, "plan"), "Kept volume isn't used", fmt.Sprintf("declare volume = %q", name+"/"+path.Base(was)))
	declare("b", root)

	was = file("root")
	l.Run(t, "kvm1", "qemu-io", "-f", "qcow2", "-c", "write -q -P 7 0 64k", was)
	l.Virsh(t, "kvm1", "undefine", name)
	expect(t, tf.Run(t, "plan"), "will be created", "Disks will be created again", "root: "+was)
	declare("b", fmt.Sprintf("root = { file = %q }", was))
	tf.Run(t, "apply")
	declare("b", root)
	tf.Run(t, "apply")
	noChanges(t, tf)
	if now := file("root"); now != was {
		t.Errorf("the disk is %s, and was %s", now, was)
	}
	l.Run(t, "kvm1", "qemu-io", "-f", "qcow2", "-c", "read -q -P 7 0 64k", was)

	// A definition that was carried to a host without the file: its destroy promises no deletion of it.
	l.Run(t, "kvm1", "mv", was, was+".elsewhere")
	l.Virsh(t, "kvm1", "pool-refresh", name)
	out := tf.Run(t, "plan", "-destroy")
	expect(t, out, "Not deleted, because host \"kvm1\" isn't known to have them", "- disks.root: "+was)
	if strings.Contains(out, "Data is deleted") {
		t.Errorf("the plan promises to delete what isn't there: %s", out)
	}
	l.Run(t, "kvm1", "mv", was+".elsewhere", was)
	l.Virsh(t, "kvm1", "pool-refresh", name)

	tf.Config(t, acctest.OneHost(l)+fmt.Sprintf(
		"resource \"virtfleet_storage_pool\" \"vms\" {\n  name = %q\n  type = \"dir\"\n  target = { path = %q }\n}\n",
		name, "/var/lib/libvirt/"+name))
	tf.Run(t, "apply")
	has("data")
	l.Run(t, "kvm1", "sh", "-c", "rm /var/lib/libvirt/"+name+"/*-data-*")
	destroyAndCheck(t, l, tf, name)
}
