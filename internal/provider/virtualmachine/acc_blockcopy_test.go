package virtualmachine_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccVirtualMachine_blockcopy: a user has moved a disk to a copy, which isn't based on the old file. Which file was
// applied last is kept with the VM: whatever state it is imported into, no plan switches the guest back, not even if
// the copy has an overlay by then. If the copy is declared, the old file may be declared too, as another disk.
func TestAccVirtualMachine_blockcopy(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	old := l.Image(t, "kvm1", name+".qcow2", "qcow2", 8<<20)
	base := strings.TrimSuffix(old, ".qcow2")
	copied, again, overlay := base+"-copy.qcow2", base+"-again.qcow2", base+".snap1"
	t.Cleanup(func() {
		if _, err := l.Host("kvm1").Run(context.Background(), "rm", "-f", copied, again, overlay); err != nil {
			t.Error(err)
		}
	})
	first, second := acctest.NewCLI(t), acctest.NewCLI(t)
	declare := func(tf *acctest.CLI, key, file, memory string, more ...string) {
		t.Helper()
		tf.Config(t, acctest.OneHost(l)+hcl{
			"name": quote(name), "type": quote("qemu"), "memory": fmt.Sprintf("{ size = %q }", memory),
			"update_policy": quote("Restart"), "termination_grace_period": quote("0s"),
			"disks": fmt.Sprintf("{ %s = { file = %q }\n%s }", key, file, strings.Join(more, "\n")),
		}.String())
	}
	// recorded are the files that are recorded for the disk, in what runs and in the definition.
	recorded := func(want string) {
		t.Helper()
		for _, where := range []string{"--live", "--config"} {
			xml := l.Virsh(t, "kvm1", "metadata", name, "urn:virtfleet:1", where)
			if got := strings.Count(xml, `source="`+want+`"`) + strings.Count(xml, `source='`+want+`'`); got != 1 {
				t.Errorf("%s: %s is recorded %d times: %s", where, want, got, xml)
			}
		}
	}
	const title = "Error: Disk was switched to another image"
	refuses := func(tf *acctest.CLI, now string) {
		t.Helper()
		out := tf.Fail(t, "plan")
		expect(t, out, title, now, old)
		if strings.Contains(out, "needs a restart") {
			t.Errorf("a restart is offered: %s", out)
		}
		expect(t, tf.Fail(t, "apply"), title)
		if err := contains(l.Virsh(t, "kvm1", "domblklist", name), now); err != nil {
			t.Fatal(err)
		}
	}

	declare(first, "root", old, "64Mi")
	first.Run(t, "apply")
	noChanges(t, first)
	recorded(old)
	l.Virsh(t, "kvm1", "blockcopy", name, "vda", copied, "--wait", "--pivot", "--transient-job")
	refuses(first, copied)
	recorded(old)

	// Another state, which also calls the disk something else, and the same state, which was lost.
	declare(second, "system", old, "96Mi")
	second.Run(t, "import", address, name)
	refuses(second, copied)
	l.Virsh(t, "kvm1", "snapshot-create-as", name, "--disk-only", "--no-metadata", "--diskspec", "vda,file="+overlay)
	refuses(second, overlay)
	first.Run(t, "state", "rm", address)
	first.Run(t, "import", address, name)
	refuses(first, overlay)

	// The file that the guest uses is declared. Then that is the one that was applied last, for both states.
	declare(second, "system", overlay, "96Mi")
	second.Run(t, "apply")
	noChanges(t, second)
	recorded(overlay)
	l.Virsh(t, "kvm1", "blockcommit", name, "vda", "--active", "--pivot", "--wait")
	declare(first, "system", overlay, "96Mi")
	expect(t, first.Fail(t, "plan"), title, copied, overlay)
	for _, tf := range []*acctest.CLI{first, second} {
		declare(tf, "system", copied, "96Mi")
		tf.Run(t, "apply")
		noChanges(t, tf)
	}
	recorded(copied)

	l.Virsh(t, "kvm1", "blockcopy", name, "vda", again, "--wait", "--pivot", "--transient-job")
	declare(second, "system", again, "96Mi", fmt.Sprintf("before = { file = %q }", copied))
	second.Run(t, "apply")
	noChanges(t, second)
	recorded(again)
	recorded(copied)
	expect(t, l.Virsh(t, "kvm1", "domblklist", name), again, copied)

	first.Run(t, "state", "rm", address)
	destroyAndCheck(t, l, second, name)
}
