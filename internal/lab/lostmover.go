package lab

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// LoseMover moves a running domain with virsh, which stops for good in the midst of it: it is frozen, its connection to
// the source is lost, that to the target stays. When this returns all memory has come, the guest is paused at the
// source, which has no job any more, and the target waits for the word to start it. wake lets virsh continue, and
// returns what it says in the end.
func (l *Lab) LoseMover(t testing.TB, domain string, from, to *Host) (wake func() error) {
	t.Helper()
	// As ssh is told where its keys are, it writes nothing of the lab's hosts down.
	ssh := filepath.Join(t.TempDir(), "ssh")
	script := fmt.Sprintf("#!/bin/sh\n"+
		"exec ssh -F none -i %s -o UserKnownHostsFile=%s -o StrictHostKeyChecking=yes \"$@\"\n",
		l.PrivateKeyFile(), l.KnownHostsFile())
	if err := os.WriteFile(ssh, []byte(script), 0o700); err != nil { //nolint:gosec // It is a program.
		t.Fatal(err)
	}
	virsh := exec.CommandContext(t.Context(), "virsh", "--quiet", "--connect", from.URI()+"?no_tty=1&command="+ssh,
		"migrate", "--live", "--persistent", "--undefinesource", "--bandwidth", "2", domain, to.SocketURI(),
		"tcp://"+to.Address)
	var said strings.Builder
	virsh.Stderr = &said
	virsh.WaitDelay = waitDelay
	if err := virsh.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- virsh.Wait() }()
	Await(t, "memory to be on its way", func() bool { return l.Copying(t, from.Name, domain) })
	if err := virsh.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "pkill", "-KILL", "-P", strconv.Itoa(virsh.Process.Pid)).
		CombinedOutput(); err != nil {
		t.Fatalf("its connection to the source: %s: %v", out, err)
	}
	l.Virsh(t, from.Name, "migrate-setspeed", domain, "8192")
	Await(t, "all memory to be there, and no run at the source to tell", func() bool {
		state, err := l.TryVirsh(t, from.Name, "domstate", "--reason", domain)
		if err != nil || strings.TrimSpace(state) != "paused (migrating)" {
			return false
		}
		job, err := l.TryVirsh(t, from.Name, "domjobinfo", domain)
		return err == nil && strings.Contains(job, "None")
	})
	if state := strings.TrimSpace(l.Virsh(t, to.Name, "domstate", domain)); state != "paused" {
		t.Fatalf("the target has it %s", state)
	}
	return func() error {
		if err := virsh.Process.Signal(syscall.SIGCONT); err != nil {
			return err
		}
		select {
		case err := <-ended:
			if err != nil {
				err = fmt.Errorf("%w: %s", err, said.String())
			}
			return err
		case <-time.After(patience):
			t.Fatalf("waited %v for the virsh that was woken up", patience)
			return nil
		}
	}
}
