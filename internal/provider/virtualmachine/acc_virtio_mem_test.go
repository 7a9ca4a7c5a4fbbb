package virtualmachine_test

import (
	"fmt"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccVirtioMem_guest: a running guest takes and returns the memory of its devices as it is asked to, is given
// another device, and keeps all of it through a live move, after which it keeps taking and returning.
func TestAccVirtioMem_guest(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	tf := acctest.NewCLI(t)
	boot := &boots{l: l, name: name}
	config := guest(l, name).with(talking).with(hcl{"memory": `{ size = "128Mi", max_size = "1Gi" }`})
	host := "kvm1"
	own := 0 // What the guest has without the devices, in KiB.
	apply := func(change hcl, wantMiB int, seen ...string) {
		t.Helper()
		config = config.with(change)
		tf.Config(t, acctest.Config(l)+config.String())
		tf.Run(t, "apply")
		if err := boot.same(t, host)(nil); err != nil {
			t.Fatal(err)
		}
		if own == 0 {
			own = guestMemory(t, l, host, name)
			// The guest returns all that it is asked for if its kernel puts nothing there that can't be moved.
			outputInGuest(t, l, host, name, "echo online_movable >/sys/devices/system/memory/auto_online_blocks")
		}
		lab.Await(t, fmt.Sprintf("the guest to have %d MiB of its devices", wantMiB), func() bool {
			return (guestMemory(t, l, host, name)-own)>>10 == wantMiB
		})
		if err := look(t, l, host, name, seen...)(nil); err != nil {
			t.Error(err)
		}
		noChanges(t, tf)
	}
	devices := func(devices string) hcl { return hcl{"devices": `{ virtio_mem = { ` + devices + ` } }`} }
	requested := func(amount string) hcl {
		return devices(fmt.Sprintf(`a = { size = "256Mi", requested = %q }`, amount))
	}
	apply(requested("0").with(hcl{"host": quote(host)}), 0, "ua-virtio-mem-a", "<requested unit='KiB'>0<")
	apply(requested("128Mi"), 128, "<requested unit='KiB'>131072<")
	apply(requested("32Mi"), 32, "<requested unit='KiB'>32768<")
	const both = `a = { size = "256Mi", requested = "32Mi" }, b = { size = "128Mi", requested = "64Mi" }`
	apply(devices(both), 96, "ua-virtio-mem-b", "<requested unit='KiB'>65536<")

	// Its kernel keeps arranging that memory. What it writes meanwhile is lost with the move unless the TLB is flushed
	// often: see the lab's GuestCmdline.
	outputInGuest(t, l, host, name, "for i in 1 2 3 4; do stir >/dev/null 2>&1 & done")
	host = "kvm2"
	apply(hcl{"host": quote(host)}, 96, "ua-virtio-mem-a", "ua-virtio-mem-b")
	apply(devices(`a = { size = "256Mi", requested = "192Mi" }, b = { size = "128Mi", requested = "0" }`), 192,
		"<requested unit='KiB'>196608<")

	// What is asked for by hand is seen and put right.
	l.Virsh(t, host, "update-memory-device", name, "--alias", "ua-virtio-mem-a", "--requested-size", "16MiB", "--live",
		"--config")
	apply(nil, 192, "<requested unit='KiB'>196608<")
	destroyAndCheck(t, l, tf, name)
}
