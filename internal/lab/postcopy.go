package lab

import (
	"bytes"
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

// A guest must be seen steady times in a row to wait for a page, its QEMU listening. A connection is held back in vain
// for as many looks as looks says, or steady looks if the guest waits and its QEMU doesn't listen: the page would have
// to come for that to change. The longer it is held back, the later it says anything when it may.
const (
	steady = 3
	looks  = 15
)

// localPort is one in a line of ss: the queues, this end, the other end.
var localPort = regexp.MustCompile(`(?m)^\d+\s+\d+\s+\S+:(\d+)\s`)

// A guest waits for a page of its memory. A QEMU listens when it takes note of a signal, which its main loop does in
// order to ignore it.
const (
	waitsForAPage = `cpu=$(grep -l '^CPU ' /proc/$(cat "/run/libvirt/qemu/$0.pid")/task/*/comm) &&
[ "$(cat "${cpu%comm}wchan")" = handle_userfault ]`
	listens = `(pid=$(cat "/run/libvirt/qemu/$0.pid"); kill -ALRM $pid || exit 1
for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.1; grep -q '^ShdPnd:[[:space:]]*0*$' /proc/$pid/status && exit; done; exit 1)`
)

// HoldPostCopy stops the memory that a migration in post-copy brings, when the guest runs on the target and waits there
// for a page, and QEMU listens to libvirt meanwhile. Neither changes any more: whatever breaks now can be mended. When
// released what was held back comes, if the connection is there still. Only the memory of this migration may be on its
// way between the two hosts.
//
// A guest can wait for a page while QEMU answers nothing: its processor holds QEMU's lock when it takes an interrupt,
// and so do its devices when they read and write what the guest gave them (QEMU 7.2 without KVM). A migration that
// breaks then can't be resumed by libvirt, and its target doesn't say that it broke.
func (l *Lab) HoldPostCopy(t testing.TB, from, to *Host, domain string) (release func()) {
	t.Helper()
	Await(t, "the guest to run on "+to.Name+" while memory comes", func() bool { return inPostCopy(t, to) })
	for deadline := time.Now().Add(2 * stepTimeout); time.Now().Before(deadline); {
		release := l.drop(t, from, to)
		if l.holds(t, to, domain) {
			return release
		}
		release()
		t.Logf("%s doesn't wait for a page on %s, or its QEMU answers no request", domain, to.Name)
		Await(t, "QEMU to listen on "+to.Name, func() bool { return l.try(t, to, listens, domain) })
	}
	t.Fatalf("%s was never seen to wait for a page on %s while its QEMU listened", domain, to.Name)
	return nil
}

// inPostCopy says that a guest was started on the target of its migration, and that the rest of its memory is awaited.
func inPostCopy(t testing.TB, to *Host) bool {
	t.Helper()
	log, err := os.ReadFile(to.Path(libvirtdLog))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	// libvirt waits for what the guest needs to start and, when QEMU has said that it has started, for the rest.
	finish := max(bytes.LastIndex(log, []byte("qemuMigrationDstFinish:")), 0)
	return bytes.Count(log[finish:], []byte("Waiting for incoming migration to complete")) == 2
}

// drop has the source say nothing over the connections to the target over which memory goes. They stay.
func (l *Lab) drop(t testing.TB, from, to *Host) (undrop func()) {
	t.Helper()
	open := l.Run(t, from.Name, "ss", "-Htn", "state", "established", memoryTo(to))
	var rules [][]string
	for _, port := range localPort.FindAllStringSubmatch(open, -1) {
		rules = append(rules, []string{"OUTPUT", "-p", "tcp", "-d", to.Address, "--sport", port[1], "-j", "DROP"})
	}
	if rules == nil {
		t.Fatalf("no connection brings memory from %s to %s: %s", from.Name, to.Name, open)
	}
	all := func(how string) {
		for _, rule := range rules {
			l.Run(t, from.Name, "iptables", append([]string{how}, rule...)...)
		}
	}
	all("-I")
	return func() { all("-D") }
}

// holds says that the guest waits for a page, and that its QEMU listens.
func (l *Lab) holds(t testing.TB, on *Host, domain string) bool {
	t.Helper()
	seen, deaf := 0, 0
	for range looks {
		switch {
		case !l.try(t, on, waitsForAPage, domain):
			seen, deaf = 0, 0
		case l.try(t, on, listens, domain):
			seen, deaf = seen+1, 0
		default:
			seen, deaf = 0, deaf+1
		}
		if seen == steady || deaf == steady {
			break
		}
	}
	return seen == steady
}

// try says that a shell command about a domain succeeds on a host.
func (l *Lab) try(t testing.TB, on *Host, command, domain string) bool {
	t.Helper()
	ctx, cancel := stepContext(t)
	defer cancel()
	_, err := on.Run(ctx, "sh", "-c", command, domain)
	return err == nil
}

// CutMigration breaks the connections over which memory comes to a host. Both ends notice.
func (l *Lab) CutMigration(t testing.TB, from, to *Host) {
	t.Helper()
	if cut := l.Run(t, from.Name, "ss", "-K", memoryTo(to)); !strings.Contains(cut, to.Address) {
		t.Errorf("no connection to break: %s", cut)
	}
	l.Run(t, to.Name, "ss", "-K",
		"src "+to.Address+" and dst "+from.Address+" and sport >= :49152 and sport <= :49215")
}

// memoryTo finds the connections to a host on the ports that libvirt has for migrations.
func memoryTo(to *Host) string {
	return "dst " + to.Address + " and dport >= :49152 and dport <= :49215"
}
