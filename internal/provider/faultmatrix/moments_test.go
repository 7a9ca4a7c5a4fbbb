package faultmatrix

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// Moments of an operation are functions that say whether it has come so far.

// locked says that a run holds a lock on a host.
func locked(h *lab.Host) func() bool {
	return func() bool {
		files, _ := filepath.Glob(h.Path("/etc/libvirt/secrets/*.xml"))
		for _, file := range files {
			if xml, _ := os.ReadFile(file); strings.Contains(string(xml), "virtfleet:lock:") {
				return true
			}
		}
		return false
	}
}

// How libvirtd notes that a guest runs, and that it is paused because it is handed over to another host.
const (
	isRunning    = "<domstatus state='running'"
	isHandedOver = "<domstatus state='paused' reason='migration'"
)

// running says that the guest runs on a host.
func (s *scene) running(h *lab.Host) func() bool { return s.is(h, isRunning) }

// handedOver says that the guest is paused on a host because it is handed over to another one.
func (s *scene) handedOver(h *lab.Host) func() bool { return s.is(h, isHandedOver) }

// unconfirmed says that the guest runs on the target, and that the source hasn't been told.
func (s *scene) unconfirmed() func() bool {
	source, target := s.handedOver(s.from), s.running(s.to)
	return func() bool { return source() && target() }
}

// inPostCopy says that the guest runs on the target, and that the source has a part of its memory.
func (s *scene) inPostCopy() func() bool {
	source, target := s.is(s.from, "<domstatus state='paused' reason='post-copy'"), s.running(s.to)
	return func() bool { return source() && target() }
}

// is says that what a host's libvirtd notes of the VM has a text.
func (s *scene) is(h *lab.Host, text string) func() bool {
	return func() bool { return noted(h, s.name, text) }
}

// noted says that a host's libvirtd begins its notes of an active VM with a text. The state is in the first lines; the
// whole is 20 KiB, which is much to read a thousand times a second.
func noted(h *lab.Host, name, text string) bool {
	notes, err := os.Open(h.Path("/run/libvirt/qemu/" + name + ".xml"))
	if err != nil {
		return false
	}
	defer func() { _ = notes.Close() }()
	head := make([]byte, 1024)
	n, _ := notes.Read(head)
	return strings.Contains(string(head[:n]), text)
}

// after says that something has been so for a while.
func after(d time.Duration, so func() bool) func() bool {
	var since time.Time
	return func() bool {
		if since.IsZero() && so() {
			since = time.Now()
		}
		return !since.IsZero() && time.Since(since) > d
	}
}

// defined says that a host's definition of the VM has a text.
func (s *scene) defined(h *lab.Host, text string) func() bool {
	return func() bool {
		xml, err := os.ReadFile(h.Path("/etc/libvirt/qemu/" + s.name + ".xml"))
		return err == nil && strings.Contains(string(xml), text)
	}
}

// started says that the VM has a process on a host.
func (s *scene) started(h *lab.Host) func() bool {
	return func() bool {
		// libvirt makes the file before it writes the process into it.
		pid, err := os.ReadFile(h.Path(lab.QEMUPIDFile(s.name)))
		return err == nil && len(pid) > 0
	}
}
