package virtualmachine_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// bite has a guest start its watchdog with the shortest time, and never feed it. The guest's kernel has no driver for
// the device: what a driver would do, is written to the device's configuration.
const bite = `
for device in /sys/bus/pci/devices/*; do
	read -r vendor <"$device/vendor"
	read -r id <"$device/device"
	[ "$vendor$id" = 0x80860x25ab ] || continue
	printf '\004\000' | dd of="$device/config" bs=2 seek=48 conv=notrunc 2>/dev/null
	printf '\002' | dd of="$device/config" bs=1 seek=104 conv=notrunc 2>/dev/null
done`

// TestAccGuest_watchdog: a guest that doesn't feed its watchdog is interrupted, reset, paused or turned off, as the
// action says that is declared. The watchdog is another one each time, and the guest isn't restarted for that. A plan
// shows what became of the guest.
func TestAccGuest_watchdog(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	const host = "kvm1"
	log := "/var/lib/libvirt/qemu/" + name + ".log"
	tf := acctest.NewCLI(t)
	boot := &boots{l: l, name: name}
	config := guest(l, name).with(talking).with(hcl{"host": quote(host), "machine_type": quote("pc")})
	apply := func(watchdog string, change hcl) {
		t.Helper()
		config = config.with(change).with(hcl{"devices": fmt.Sprintf(
			`{ serials = { main = { type = "file", path = %q } }, watchdog = { %s } }`, log, watchdog)})
		tf.Config(t, acctest.OneHost(l)+config.String())
		tf.Run(t, "apply")
		noChanges(t, tf)
	}
	bites := func(action string) {
		t.Helper()
		if boot.id != "" {
			apply(`model = "none"`, nil)
		}
		apply("action = "+quote(action), nil)
		if err := boot.same(t, host)(nil); err != nil {
			t.Fatal(err)
		}
		inGuest(t, l, host, name, bite)
	}
	plan := func(status, reason, action, then string) {
		t.Helper()
		change := tf.Plan(t)[address]
		got := fmt.Sprint(change.Before["status"], change.Before["status_reason"], change.Actions, change.After["status"])
		if want := fmt.Sprint(status, reason, action, then); got != want {
			t.Errorf("the plan is %q, want %q", got, want)
		}
	}

	bites("inject-nmi")
	lab.Await(t, "the guest's interrupt", func() bool {
		line := linesOf(guestFile(t, l, host, name, "/proc/interrupts"), "NMI:")
		return strings.Fields(line)[1] == "1"
	})
	bites("pause")
	awaitState(t, l, host, name, "paused (watchdog)")
	plan("Paused", "Watchdog", "no-op", "Paused")
	expect(t, tf.Run(t, "apply"), "Warning: Virtual machine is paused and not resumed", "(Watchdog)")
	l.Virsh(t, host, "resume", name)
	bites("reset")
	lab.Await(t, "the guest's second boot", func() bool {
		said, err := os.ReadFile(l.Host(host).Path(log))
		return err == nil && strings.Count(string(said), "init: guest guest is up") == 2
	})
	boot.id = ""
	if err := boot.same(t, host)(nil); err != nil {
		t.Fatal(err)
	}
	if ended := qemuExitReasons(t, l, host, name); ended != "" {
		t.Errorf("QEMU ended by %q", ended)
	}
	bites("poweroff")
	awaitState(t, l, host, name, "shut off (crashed)")
	plan("Failed", "Crashed", "update", "Running")
	apply("", hcl{"run_strategy": quote("Halted")})
	destroyAndCheck(t, l, tf, name)
}
