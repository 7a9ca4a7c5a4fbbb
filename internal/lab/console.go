package lab

import (
	"errors"
	"os"
	"strings"
	"testing"
)

// What guests of the lab say on their consoles.
const (
	// GuestUp says that a guest has booted.
	GuestUp = " is up"
	// GuestWrites says that a guest with the word dirty has written to all of that memory once, and continues.
	GuestWrites = "init: it keeps writing"
)

// What a guest with the word data says each time when it has read its first disk: what it once wrote there, or not.
const (
	dataIntact = "init: its data are intact"
	dataLost   = "init: its data are lost"
)

// agentStopped is what the console says after HangAgent.
const agentStopped = "init: the agent is stopped"

// AwaitConsole waits until a guest has said something on its console, which its definition has in ConsoleLog. That is
// how a guest tells what it has come to while it has no agent that could be asked.
func (l *Lab) AwaitConsole(t testing.TB, host, domain, text string) {
	t.Helper()
	file := l.need(t, host).Path(ConsoleLog(domain))
	Await(t, "the guest to say \""+text+"\" on its console", func() bool {
		said, err := os.ReadFile(file)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		return strings.Contains(string(said), text)
	})
}

// AwaitData waits until a guest with the word data, which runs on the host, has read its disk from now on, and fails
// the test if it ever read something else than what it wrote.
func (l *Lab) AwaitData(t testing.TB, host, domain string) {
	t.Helper()
	file := l.need(t, host).Path(ConsoleLog(domain))
	reads := func() int {
		said, err := os.ReadFile(file)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		if strings.Contains(string(said), dataLost) {
			t.Fatalf("the guest on %s lost what it wrote to its disk", host)
		}
		return strings.Count(string(said), dataIntact)
	}
	// It may be about to say what it has read before.
	before := reads()
	Await(t, "the guest to read its disk", func() bool { return reads() > before+1 })
}

// AwaitAgent waits until the agent in a guest answers.
func (l *Lab) AwaitAgent(t testing.TB, host, domain string) {
	t.Helper()
	Await(t, "the guest to have its agent answer", func() bool {
		_, err := l.TryVirsh(t, host, "qemu-agent-command", domain, `{"execute":"guest-ping"}`, "--timeout", "10")
		return err == nil
	})
}

// ShutDownByAgent has the guest's agent shut it down, and waits until the domain is off. libvirt may see that before it
// gets the agent's answer; then virsh fails.
func (l *Lab) ShutDownByAgent(t testing.TB, host, domain string) {
	t.Helper()
	_, asked := l.TryVirsh(t, host, "shutdown", domain, "--mode", "agent")
	if asked != nil {
		t.Log(asked)
	}
	Await(t, domain+" to shut down", func() bool {
		return strings.TrimSpace(l.Virsh(t, host, "domstate", domain)) == "shut off"
	})
}

// HangAgent stops the agent in a guest, which keeps its channel open, and returns when it has stopped: an agent that
// is only slow doesn't answer for a while either. The guest's console has to be in ConsoleLog.
func (l *Lab) HangAgent(t testing.TB, host, domain string) {
	t.Helper()
	// The parent of the shell is the agent. It sleeps when it has answered.
	l.Virsh(t, host, "qemu-agent-command", domain, `{"execute":"guest-exec","arguments":{"path":"/bin/sh","arg":["-c",`+
		`"sleep 1; until busybox grep -q sleeping /proc/$PPID/status; do sleep 0.1; done; kill -STOP $PPID; `+
		`echo `+agentStopped+` >/dev/console"]}}`)
	l.AwaitConsole(t, host, domain, agentStopped)
}
