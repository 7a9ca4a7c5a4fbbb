package virtualmachine_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// delayQEMU makes the VM's QEMU wait, as long as a file is there, before it does anything. Removing the file lets it go
// on; that happens at the end in any case.
func delayQEMU(t *testing.T, l *lab.Lab, host, name string) (goOn func()) {
	t.Helper()
	const images = "/var/lib/libvirt/images/"
	hold, emulator := l.Host(host).Path(images+name+".hold"), l.Host(host).Path(images+name+".sh")
	script := fmt.Sprintf("#!/bin/sh\ncase \"$*\" in *guest=%s,*) while [ -e %s ]; do sleep 0.1; done ;; esac\n"+
		"exec /usr/bin/qemu-system-x86_64 \"$@\"\n", name, images+name+".hold")
	for file, mode := range map[string]os.FileMode{hold: 0o600, emulator: 0o755} {
		if err := os.WriteFile(file, []byte(script), mode); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Remove(file) })
	}
	_, xml, _ := strings.Cut(l.Virsh(t, host, "dumpxml", "--inactive", name), "<emulator>")
	before, _, _ := strings.Cut(xml, "</emulator>")
	xml = strings.Replace(l.Virsh(t, host, "dumpxml", "--inactive", name), before, images+name+".sh", 1)
	l.Virsh(t, host, "define", writeDeviceXML(t, xml))
	return func() {
		if err := os.Remove(hold); err != nil {
			t.Error(err)
		}
	}
}

// TestAccPower_starting: a VM that a user starts is Starting, not paused. No plan minds it, and an update waits
// until it runs.
func TestAccPower_starting(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	const host = "kvm1"
	tf := acctest.NewCLI(t)
	config := idleVM(l, name).with(hcl{"host": quote(host)})
	tf.Config(t, acctest.OneHost(l)+config.String())
	tf.Run(t, "apply")
	id := uuidOf(t, l, host, name)
	l.Virsh(t, host, "destroy", name)
	goOn := delayQEMU(t, l, host, name)
	l.Run(t, host, "bash", "-c", `virsh -c qemu:///system start "$1" >/dev/null 2>&1 &`, "start", name)
	awaitState(t, l, host, name, "paused (starting up)")

	noChanges(t, tf)
	tf.Run(t, "apply", "-refresh-only")
	if state, _ := tf.State(t, address); state["status"] != "Starting" || state["ready"] != false {
		t.Errorf("its status is %v, ready %v", state["status"], state["ready"])
	}
	noChanges(t, tf)

	tf.Config(t, acctest.OneHost(l)+config.with(hcl{"labels": `{ app = "web" }`}).String())
	apply := tf.Start(t, "apply")
	waitWhileRunning(t, "the lock", apply, func() bool { return isLocked(t, l, host, id) })
	goOn()
	if out, err := apply.Wait(); err != nil {
		t.Fatal(out)
	}
	if state, _ := tf.State(t, address); state["status"] != "Running" || state["ready"] != true {
		t.Errorf("its status is %v, ready %v", state["status"], state["ready"])
	}
	noChanges(t, tf)
	destroyAndCheck(t, l, tf, name)
}
