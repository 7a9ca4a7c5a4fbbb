package virtualmachine_test

import (
	"fmt"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/virtualmachine"
)

// What guests that share a disk do with it: one writes a word, the other waits until it reads that word.
const (
	writesShared = `until [ -b /dev/vda ]; do sleep 0.1; done; echo %s | dd of=/dev/vda bs=512 conv=sync,fsync`
	readsShared  = `for i in $(busybox seq 100); do
	echo 3 >/proc/sys/vm/drop_caches
	read -r word </dev/vda && [ "$word" = %s ] && break
	sleep 0.1
done 2>/dev/null; echo "$word"`
)

// TestAccGuest_pair: what one guest writes to a disk that is shareable, the other one reads. When both reboot, one
// continues in its QEMU, and the other one is off, as they are declared. A third VM isn't given the disk for itself.
func TestAccGuest_pair(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	prefix := lab.Name(t)
	first, second, third := prefix+"-1", prefix+"-2", prefix+"-3"
	for _, name := range []string{first, second, third} {
		l.RemoveDomain(t, name)
	}
	const host = "kvm1"
	disk := l.Image(t, host, prefix+".raw", "raw", 1<<20)
	vm := func(name, onReboot, shareable string) hcl {
		return guest(l, name).with(talking).with(hcl{
			"host":     quote(host),
			"disks":    fmt.Sprintf(`{ shared = { file = %q, format = "raw", cache = "none"%s } }`, disk, shareable),
			"platform": fmt.Sprintf(`{ events = { on_reboot = %q } }`, onReboot),
		})
	}
	const both = ", shareable = true"
	pair := acctest.OneHost(l) + vm(first, "restart", both).String() + vm(second, "destroy", both).named("second")
	tf := acctest.NewCLI(t)
	tf.Config(t, pair)
	tf.Run(t, "apply")
	noChanges(t, tf)

	passes := func(from, to, word string) {
		t.Helper()
		outputInGuest(t, l, host, from, fmt.Sprintf(writesShared, word))
		if read := outputInGuest(t, l, host, to, fmt.Sprintf(readsShared, word)); read != word {
			t.Errorf("%s wrote %s, and %s reads %q", from, word, to, read)
		}
	}
	passes(first, second, "one")
	passes(second, first, "two")

	tf.Config(t, pair+vm(third, "restart", "").named("third"))
	expect(t, tf.Fail(t, "plan"), "Disk belongs to another virtual machine", "two VMs that write to one disk")
	tf.Config(t, pair)

	process := &started{l: l, host: host, name: first}
	process.pid = process.read(t)
	boot := &boots{l: l, name: first}
	before := boot.read(t, host)
	for _, name := range []string{first, second} {
		inGuest(t, l, host, name, "sync; reboot -f")
	}
	awaitState(t, l, host, second, "shut off (shutdown)")
	lab.Await(t, "the first guest to boot again", func() bool { return boot.read(t, host) != before })
	if err := process.same(t)(nil); err != nil {
		t.Error(err)
	}
	if read := outputInGuest(t, l, host, first, fmt.Sprintf(readsShared, "two")); read != "two" {
		t.Errorf("after its reboot the guest reads %q", read)
	}
	change := tf.Plan(t)[virtualmachine.TypeName+".second"]
	if change.Before["status"] != "Stopped" || change.After["status"] != "Running" {
		t.Errorf("the plan brings the VM that is off from %v to %v", change.Before["status"], change.After["status"])
	}
	tf.Config(t, acctest.OneHost(l)+vm(first, "restart", both).String()+
		vm(second, "destroy", both).with(hcl{"run_strategy": quote("Halted")}).named("second"))
	tf.Run(t, "apply")
	noChanges(t, tf)
	destroyAndCheck(t, l, tf, first, second)
}
