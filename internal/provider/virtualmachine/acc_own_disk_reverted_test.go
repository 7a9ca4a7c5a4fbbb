package virtualmachine_test

import (
	"fmt"
	"path"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccVirtualMachine_ownDiskReverted: a snapshot brings back a definition, and a record, without a disk that was
// made since. The disk is attached again with its data, and no second one is made, unless its volume is gone. The plan
// that deletes the first-boot medium, which the snapshot needs, warns. Not declared, the disk is listed by the destroy.
func TestAccVirtualMachine_ownDiskReverted(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	tf := acctest.NewCLI(t)
	const dir = "resource \"virtfleet_storage_pool\" %q {\n  name = %q\n  type = \"dir\"\n  target = { path = %q }\n}\n"
	pool := acctest.OneHost(l) + fmt.Sprintf(dir, "vms", name, "/var/lib/libvirt/"+name) +
		fmt.Sprintf(dir, "alone", name+"-alone", "/var/lib/libvirt/"+name+"-alone")
	declare := func(user string, disks ...string) {
		vm := hcl{
			"host": quote("kvm1"), "run_strategy": quote("Halted"), "cloud_init": fmt.Sprintf("{ user_data = %q }", user),
			"disks": "{\n" + strings.Join(disks, "\n") + "\n}",
		}
		tf.Config(t, pool+strings.ReplaceAll(idleVM(l, name).with(vm).String(), "POOL", "virtfleet_storage_pool.vms.name"))
	}
	// extra are the volumes of the disk.
	extra := func() []string {
		t.Helper()
		return strings.Fields(l.Run(t, "kvm1", "sh", "-c", "ls /var/lib/libvirt/"+name+"/*-extra-* || true"))
	}
	medium := func() string {
		t.Helper()
		return strings.Fields(l.Run(t, "kvm1", "sh", "-c", "ls /var/lib/libvirt/"+name+"/*-cloud-init-*"))[0]
	}
	attached := func(want string) {
		t.Helper()
		if got := extra(); len(got) != 1 || got[0] != want {
			t.Fatalf("the volumes are %q; want %s alone", got, want)
		}
		if err := contains(l.Virsh(t, "kvm1", "domblklist", "--inactive", name), want); err != nil {
			t.Fatal(err)
		}
	}

	root := `root = { pool = POOL, size = "1Mi" }`
	disk := `extra = { pool = POOL, size = "2Mi" }`
	declare("#!/bin/sh\n# 1", root)
	tf.Run(t, "apply")
	l.Virsh(t, "kvm1", "snapshot-create-as", name, "before")
	first := medium()
	l.Run(t, "kvm1", "cp", "-p", first, "/var/lib/libvirt/"+name+"/saved.iso")
	declare("#!/bin/sh\n# 2", root, disk)
	const snapshots = "Snapshots refer to what is deleted"
	expect(t, tf.Run(t, "plan"), snapshots, `"before"`, first)
	tf.Run(t, "apply")
	was := extra()[0]
	l.Run(t, "kvm1", "qemu-io", "-f", "qcow2", "-c", "write -q -P 7 0 64k", was)

	revert := func() {
		t.Helper()
		l.Run(t, "kvm1", "cp", "-p", "/var/lib/libvirt/"+name+"/saved.iso", first)
		l.Virsh(t, "kvm1", "pool-refresh", name)
		l.Virsh(t, "kvm1", "snapshot-revert", name, "before")
	}
	const again = "Disks are used again"
	revert()
	expect(t, tf.Run(t, "plan"), again, "disks.extra: "+was)
	expect(t, tf.Run(t, "plan", "-destroy"), "has lost it", "the cloud-init medium", `disk "extra": `+was)
	tf.Run(t, "apply")
	attached(was)
	l.Run(t, "kvm1", "qemu-io", "-f", "qcow2", "-c", "read -q -P 7 0 64k", was)
	noChanges(t, tf)

	// What was created otherwise isn't attached in its place.
	revert()
	declare("#!/bin/sh\n# 2", root, `extra = { pool = "default", size = "2Mi" }`)
	expect(t, tf.Fail(t, "plan"), "Disk would be created again", was)
	l.Virsh(t, "kvm1", "vol-delete", "--pool", name, was)
	declare("#!/bin/sh\n# 2", root, disk)
	if out := tf.Run(t, "apply"); strings.Contains(out, again) {
		t.Errorf("a volume that is gone is used again: %s", out)
	}
	attached(was)
	noChanges(t, tf)

	revert()
	declare("#!/bin/sh\n# 2", root)
	tf.Run(t, "apply")
	noChanges(t, tf)
	expect(t, tf.Run(t, "plan", "-destroy"), "has lost it", `disk "extra": `+was, "vol-delete")
	l.Virsh(t, "kvm1", "vol-delete", "--pool", name, was)

	// A disk that is gone is no reason to refuse another one.
	declare("#!/bin/sh\n# 2", root, `extra = { pool = virtfleet_storage_pool.alone.name, size = "2Mi" }`)
	tf.Run(t, "apply")
	alone := strings.Fields(l.Run(t, "kvm1", "sh", "-c", "ls /var/lib/libvirt/"+name+"-alone/*-extra-*"))[0]
	expect(t, l.Virsh(t, "kvm1", "domblklist", "--inactive", name), alone)
	noChanges(t, tf)

	// An empty pool doesn't show whether the disk is gone. It isn't attached.
	revert()
	l.Virsh(t, "kvm1", "vol-delete", "--pool", name+"-alone", alone)
	expect(t, tf.Fail(t, "plan"), "Disk is not what is declared", path.Base(alone), "another key")
	declare("#!/bin/sh\n# 2", root, `other = { pool = virtfleet_storage_pool.alone.name, size = "2Mi" }`)
	tf.Run(t, "apply")
	expect(t, l.Virsh(t, "kvm1", "domblklist", "--inactive", name), name+"-alone/"+name+"-other-")
	noChanges(t, tf)
	l.Run(t, "kvm1", "sh", "-c", "rm /var/lib/libvirt/"+name+"/saved.iso /var/lib/libvirt/"+name+"/*-cloud-init-*")
	destroyAndCheck(t, l, tf, name)
}
