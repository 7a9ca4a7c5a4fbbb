package events

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/ops/opstest"
)

// TestLab_printsTheLifecycleOfAVM does by hand what is done to VMs, and reads it back: each kind of event, in libvirt's
// words, from the host where it happened.
func TestLab_printsTheLifecycleOfAVM(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	from, to := l.Host("kvm1"), l.Host("kvm2")
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	export := l.NBD(t, name, 16<<20)
	r := opstest.Start(t, Run, opstest.Config(l, from, to), "--vm", name)
	for _, h := range []string{from.Name, to.Name} {
		r.Out.Line(t, h, "answers; following its events")
	}
	told := func(host *lab.Host, what string) {
		t.Helper()
		r.Out.Line(t, host.Name, name, what)
	}
	opstest.StartVM(t, l, from, export, "")
	told(from, "Defined (Added)")
	told(from, "Started (Booted)")
	told(from, "Agent Connected")
	l.Virsh(t, from.Name, "suspend", name)
	told(from, "Suspended (Paused)")
	l.Virsh(t, from.Name, "resume", name)
	told(from, "Resumed (Unpaused)")
	l.Virsh(t, from.Name, "desc", name, "--live", "hello")
	told(from, "Metadata")

	mouse := filepath.Join(t.TempDir(), "mouse.xml")
	const xml = `<input type="mouse" bus="usb"><alias name="ua-mouse"/></input>`
	if err := os.WriteFile(mouse, []byte(xml), 0o600); err != nil {
		t.Fatal(err)
	}
	l.Virsh(t, from.Name, "attach-device", name, mouse, "--live")
	told(from, "DeviceAdded ua-mouse")
	l.Virsh(t, from.Name, "detach-device", name, mouse, "--live")
	told(from, "DeviceRemoved ua-mouse")

	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	if err := from.Migrate(ctx, name, to); err != nil {
		t.Fatal(err)
	}
	told(from, "MigrationIteration 1")
	told(to, "Started (Migrated)")
	told(from, "JobCompleted MigrationOut")
	told(to, "Resumed (Migrated)")
	told(from, "Stopped (Migrated)")

	// The agent is killed, by what it runs, and the disk fails for real.
	l.AwaitAgent(t, to.Name, name)
	l.Virsh(t, to.Name, "qemu-agent-command", name, `{"execute":"guest-exec","arguments":{"path":"/bin/sh","arg":["-c",`+
		`"sleep 1; kill -KILL $PPID; until [ -b /dev/vda ]; do sleep 1; done; `+
		`while :; do dd if=/dev/zero of=/dev/vda bs=1M count=1 conv=fsync; sleep 1; done"]}}`)
	told(to, "Agent Disconnected")
	if err := l.RemoveExport(ctx, name); err != nil {
		t.Fatal(err)
	}
	told(to, "IOError ua-disk-root Pause")
	told(to, "Suspended (IOError)")
	l.Virsh(t, to.Name, "destroy", name)
	told(to, "Stopped (Destroyed)")
	if err := r.Stop(); err != nil {
		t.Error(err)
	}
	for line := range strings.Lines(r.Out.String()) {
		if !strings.Contains(line, name) && !strings.Contains(line, "answers") {
			t.Errorf("it wasn't asked for %s", line)
		}
	}
}

// TestLab_followsALostHost kills the daemon of a host, before it is followed and after.
func TestLab_followsALostHost(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	h := l.StartHost(t)
	restart := l.KillLibvirtd(t, h)
	r := opstest.Start(t, Run, opstest.Config(l, h), "--output", "json", "--host", h.Name)
	define := func(name string) {
		t.Helper()
		l.Define(t, h.Name, fmt.Sprintf(`<domain type="qemu"><name>%s</name><memory unit="MiB">64</memory>`+
			`<os><type arch="x86_64" machine="q35">hvm</type></os></domain>`, name))
		r.Out.Line(t, `"host":"`+h.Name+`","name":"`+name+`"`, `"event":"Lifecycle","detail":"Defined","reason":"Added"`)
	}
	r.Out.Line(t, `"event":"Host","detail":"Disconnected","reason":`)
	restart()
	r.Out.Line(t, `"event":"Host","detail":"Reconnected"`)
	define("first")
	restart = l.KillLibvirtd(t, h)
	r.Out.Line(t, `"event":"Host","detail":"Disconnected"}`)
	restart()
	r.Out.Nth(t, 2, `"event":"Host","detail":"Reconnected"`)
	define("second")
}
