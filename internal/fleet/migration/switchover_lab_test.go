package migration

import (
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// The run is killed when the guest runs on the target, before libvirt has confirmed that to the source: the source's
// process waits forever, with a guest that must never run. The process is ended, and the guest isn't harmed.
func TestLab_sourceLearnsThatItsGuestArrived(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	source, target := l.StartHost(t), l.StartHost(t)
	b := newBenchOn(t, l, source, target, "")
	state := func(h *lab.Host) string {
		said, err := l.TryVirsh(t, h.Name, "domstate", "--reason", b.machine.Name)
		if err != nil {
			return ""
		}
		return strings.TrimSpace(said)
	}
	signal := func(h *lab.Host, name string) {
		t.Helper()
		l.Run(t, h.Name, "sh", "-c", "kill -"+name+" $(cat /run/libvirtd.pid)")
	}

	// Without keepalives all that it sends is calls.
	client := exec.CommandContext(t.Context(), "virsh", "--keepalive-interval", "0", "--connect", source.SocketURI(),
		"migrate", "--live", "--persistent", "--undefinesource", "--bandwidth", "2", b.machine.Name, target.SocketURI(),
		"tcp://"+target.Address)
	if err := client.Start(); err != nil {
		t.Fatal(err)
	}
	lab.Await(t, "memory to be on its way", func() bool {
		job, err := b.source.Job(t.Context(), b.machine.UUID)
		return err == nil && job != nil && job.Memory.Processed > 0
	})
	signal(target, "STOP") // Now the guest can't be started there, but its memory keeps coming.
	if err := b.source.SetMigrationBandwidth(t.Context(), b.machine.UUID, 8<<30, false); err != nil {
		t.Fatal(err)
	}
	lab.Await(t, "the guest to be paused", func() bool { return state(source) == "paused (migrating)" })
	lab.Await(t, "the client to ask the target to start it", func() bool { return unread(t, client.Process.Pid) })
	if err := client.Process.Signal(syscall.SIGSTOP); err != nil { // It won't hear of it any more.
		t.Fatal(err)
	}
	signal(target, "CONT")
	lab.Await(t, "the guest to run", func() bool { return state(target) == "running (migrated)" })
	if err := client.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = client.Wait()
	if s := state(source); s != "paused (migrating)" {
		t.Fatalf("the source has it %s", s)
	}

	lab.Await(t, "the source to be told", func() bool {
		revived, err := FinishSwitchover(t.Context(), b.source, b.target, b.machine.UUID)
		if err != nil {
			t.Fatal(err)
		}
		return revived
	})
	if s := state(source); !strings.HasPrefix(s, "shut off") {
		t.Errorf("the source has it %s", s)
	}
	if s := state(target); s != "running (migrated)" {
		t.Errorf("the target has it %s", s)
	}
	n := b.counter(target.Name)
	lab.Await(t, "the guest to keep counting", func() bool { return b.counter(target.Name) > n })
	if again, err := FinishSwitchover(t.Context(), b.source, b.target, b.machine.UUID); again || err != nil {
		t.Errorf("again: %t, %v", again, err)
	}
}

// unread says that it is not yet read what a process sent over one of its unix sockets.
func unread(t *testing.T, pid int) bool {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "ss", "--unix", "--processes", "--no-header").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		// Its type, its state, what it has not read, and what the other end has not.
		fields := strings.Fields(line)
		if strings.Contains(line, fmt.Sprintf("pid=%d,", pid)) && len(fields) > 3 && fields[3] != "0" {
			return true
		}
	}
	return false
}

// The run is frozen during the switchover: its connection to the source is lost, that to the target stays. All memory
// was copied, the target was not ordered to start the guest, and no libvirt cleans up. The guest is resumed at the
// source. The run, when it is resumed afterwards, changes nothing.
func TestLab_targetIsNeverStarted(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	source, target := l.StartHost(t), l.StartHost(t)
	b := newBenchOn(t, l, source, target, "dirty=8")
	state := func(h *lab.Host) string {
		said, err := l.TryVirsh(t, h.Name, "domstate", "--reason", b.machine.Name)
		if err != nil {
			return ""
		}
		return strings.TrimSpace(said)
	}
	wake := l.LoseMover(t, b.machine.Name, source, target)
	before := b.counter(source.Name)

	if revived, err := FinishSwitchover(t.Context(), b.source, b.target, b.machine.UUID); !revived || err != nil {
		t.Fatalf("%t, %v", revived, err)
	}
	alone := func(when string) {
		t.Helper()
		if here, there := state(source), state(target); !strings.HasPrefix(here, "running") || there != "" {
			t.Errorf("%s the source has it %q, the target %q", when, here, there)
		}
	}
	alone("afterwards")
	if err := wake(); err == nil {
		t.Error("whoever woke up believes that it migrated")
	}
	alone("in the end")
	lab.Await(t, "the guest to keep counting", func() bool { return b.counter(source.Name) > before })
}
