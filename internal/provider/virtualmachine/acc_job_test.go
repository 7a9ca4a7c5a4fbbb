package virtualmachine_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccVirtualMachine_jobs: while a backup or a block copy runs on a disk, no plan grows or removes the disk, and
// neither does the apply of an earlier plan: both say which job runs on which disk, and how it ends. A plan that stops,
// restarts or destroys the VM warns about the job. Other changes work.
func TestAccVirtualMachine_jobs(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	tf := acctest.NewCLI(t)
	root, data := `root = { pool = "default", size = "8Mi" }`, `data = { pool = "default", size = "8Mi" }`
	grown := strings.Replace(data, "8Mi", "16Mi", 1)
	config := func(more hcl, disks ...string) {
		tf.Config(t, acctest.OneHost(l)+tinyVM(name).with(hcl{
			"disks": "{\n" + strings.Join(disks, "\n") + "\n}",
		}).with(more).String())
	}
	config(nil, root, data)
	tf.Run(t, "apply")
	config(nil, root, grown)
	tf.Plan(t)

	file := "/var/lib/libvirt/images/" + name
	t.Cleanup(func() { l.Run(t, "kvm1", "rm", "-f", file+".scratch", file+".copy", file+".sock") })
	backup := filepath.Join(t.TempDir(), "backup.xml")
	document := fmt.Sprintf("<domainbackup mode='pull'><server transport='unix' socket='%[1]s.sock'/><disks>"+
		"<disk name='vda' type='file'><scratch file='%[1]s.scratch'/></disk><disk name='vdb' backup='no'/></disks>"+
		"</domainbackup>", file)
	if err := os.WriteFile(backup, []byte(document), 0o600); err != nil {
		t.Fatal(err)
	}
	l.Virsh(t, "kvm1", "backup-begin", name, backup)
	const lost = "Warning: Jobs on disks are lost: "
	before := l.Virsh(t, "kvm1", "dumpxml", "--inactive", name)
	refused := func(job, remedy string) {
		t.Helper()
		says := fmt.Sprintf("A %s runs on disk \"data\" (vda) of VM %q on host \"kvm1\"", job, name)
		for _, disks := range [][]string{{root, grown}, {root}} {
			config(nil, disks...)
			expect(t, tf.Fail(t, "plan"), "Error: Job runs on the disk: "+name, says, remedy)
		}
		for _, args := range [][]string{{"plan"}, {"plan", "-destroy"}} {
			config(hcl{"run_strategy": quote("Halted")}, root, data)
			expect(t, tf.Run(t, args...), lost+name, `- disk "data" (vda): `+job)
		}
		config(hcl{"update_policy": quote("Restart"), "machine_type": quote("pc-q35-7.1")}, root, data)
		expect(t, tf.Run(t, "plan"), lost+name, "restarts the VM", `- disk "data" (vda): `+job)
	}
	refused("backup", "virsh domjobabort "+name)
	expect(t, tf.Fail(t, "apply", "planned"), "disks.data.size", "A backup runs on disk \"data\" (vda)",
		"virsh domjobabort "+name)
	if now := l.Virsh(t, "kvm1", "dumpxml", "--inactive", name); now != before {
		t.Errorf("the definition was changed from %s to %s", before, now)
	}
	root = strings.Replace(root, "8Mi", "16Mi", 1)
	config(nil, root, data)
	tf.Run(t, "apply") // No job runs on this disk.
	config(nil, root, data)
	l.Virsh(t, "kvm1", "domjobabort", name)

	l.Virsh(t, "kvm1", "blockcopy", name, "vda", file+".copy", "--transient-job")
	refused("block copy", "virsh blockjob "+name+" vda --pivot")
	l.Virsh(t, "kvm1", "blockjob", name, "vda", "--abort")

	// A snapshot's overlay, whose chain jobs make shorter.
	l.Virsh(t, "kvm1", "qemu-monitor-command", name, "--hmp",
		`qemu-io -d /machine/peripheral/ua-disk-data/virtio-backend "write -P 1 0 4M"`)
	l.Virsh(t, "kvm1", "snapshot-create-as", name, "--disk-only", "--no-metadata", "--diskspec", "vdb,snapshot=no",
		"--diskspec", "vda,file="+file+".overlay")
	for job, begin := range map[string][]string{
		"block pull":   {"blockpull", name, "vda", "--bandwidth", "1", "--bytes"},
		"block commit": {"blockcommit", name, "vda", "--active"},
	} {
		l.Virsh(t, "kvm1", begin...)
		config(nil, root, data)
		expect(t, tf.Run(t, "plan", "-destroy"), lost+name, `- disk "data" (vda): `+job)
		config(nil, root)
		expect(t, tf.Fail(t, "plan"), "A "+job+" runs on disk", "virsh blockjob "+name+" vda --abort")
		l.Virsh(t, "kvm1", "blockjob", name, "vda", "--abort")
	}
	l.Virsh(t, "kvm1", "blockcommit", name, "vda", "--active", "--pivot", "--wait")
	l.Run(t, "kvm1", "rm", file+".overlay")
	config(nil, root, grown)
	if out := tf.Run(t, "plan", "-destroy"); strings.Contains(out, lost) {
		t.Errorf("no job runs any more: %s", out)
	}
	tf.Run(t, "apply")
	noChanges(t, tf)
	expect(t, l.Virsh(t, "kvm1", "domblkinfo", name, "vda"), "16777216")
	destroyAndCheck(t, l, tf, name)
}
