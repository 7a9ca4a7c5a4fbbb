package lab

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// explaining is how many bytes of a log may explain why a test failed.
const explaining = 2 << 10

// registers are the lines of QEMU's "info registers" that say where a processor is, and whether it waits.
var registers = regexp.MustCompile(`(?m)^(CPU#|RIP=).*$`)

// logBegins finds the first two lines of a kernel's log, which follow each other: these texts are elsewhere, too.
var logBegins = regexp.MustCompile(`(?s)Linux version .{0,512}?Command line: `)

// kernelSaid finds texts in a guest's memory. The kernel's log has a few bytes between its lines.
var kernelSaid = regexp.MustCompile(`[[:print:]]{12,}`)

// explain logs, if the test has failed, what each host's QEMU and the console of a domain's guest said at the end, and
// what the guest does if it still runs.
func (l *Lab) explain(t testing.TB, domain string) {
	t.Helper()
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		for _, h := range l.Hosts {
			for _, file := range []string{"/var/log/libvirt/qemu/" + domain + ".log", ConsoleLog(domain)} {
				if said, err := os.ReadFile(h.Path(file)); err == nil {
					t.Logf("the end of %s on %s:\n%s", file, h.Name, said[max(0, len(said)-explaining):])
				}
			}
			if text := h.explainGuest(t, domain); text != "" {
				t.Logf("%s on %s: %s", domain, h.Name, text)
			}
		}
	})
}

// explainGuest says where the processors of a running guest are, and what its kernel said at the end: that tells why a
// guest hangs that has neither agent nor console. It returns "" if the guest doesn't run here.
func (h *Host) explainGuest(t testing.TB, domain string) string {
	t.Helper()
	ctx, cancel := stepContext(t)
	defer cancel()
	// A guest that hangs is at the same place both times.
	var where []string
	for range 2 {
		out, err := h.Virsh(ctx, "qemu-monitor-command", "--hmp", domain, "info registers -a")
		if err != nil {
			return ""
		}
		where = append(where, registers.FindAllString(out, -1)...)
	}
	said, err := h.kernelLog(t, domain)
	if err != nil {
		said = err.Error()
	}
	return fmt.Sprintf("processors, twice:\n%s\nwhat its kernel said last:\n%s", strings.Join(where, "\n"), said)
}

// kernelLog returns the end of what a guest's kernel has said since its boot, as its memory has it.
func (h *Host) kernelLog(t testing.TB, domain string) (string, error) {
	t.Helper()
	ctx, cancel := stepContext(t)
	defer cancel()
	file := "/var/log/libvirt/qemu/" + domain + ".memory"
	defer func() { _ = os.Remove(h.Path(file)) }()
	if _, err := h.Virsh(ctx, "dump", "--live", "--memory-only", domain, file); err != nil {
		return "", err
	}
	memory, err := os.ReadFile(h.Path(file))
	if err != nil {
		return "", fmt.Errorf("reading the memory of %s: %w", domain, err)
	}
	begin := logBegins.FindIndex(memory)
	if begin == nil {
		return "its memory has no log", nil
	}
	lines := kernelSaid.FindAll(memory[begin[0]:min(len(memory), begin[0]+64<<10)], -1)
	log := bytes.Join(lines, []byte("\n"))
	return string(log[max(0, len(log)-explaining):]), nil
}
