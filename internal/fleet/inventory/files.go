package inventory

import (
	"context"
	"path"
	"slices"
	"sync"
	"time"
)

// filesTimeout bounds one look for a VM's files on one host. Storage that hangs must not hold up a plan.
const filesTimeout = 20 * time.Second

// filesPause is how long a host that didn't answer isn't asked again: the VMs of a plan don't wait for it one after the
// other.
const filesPause = time.Minute

// FileFinding is what a host said of a file that a VM needs.
type FileFinding int

// What a host may say of a file.
const (
	fileUndecided FileFinding = iota // there, or unknown
	FileDoubtful                     // the storage pool that it would be in doesn't know it
	FileAbsent
	FileUnknown // the host didn't answer in time
)

// seenFiles are the paths that were found on a host. They are not looked for again: what vanishes after that is told
// when the VM is started.
type seenFiles struct {
	mu       sync.Mutex
	paths    map[string]bool
	timedOut time.Time // when the host last didn't answer in time
}

func (s *seenFiles) pausing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()

	return !s.timedOut.IsZero() && time.Since(s.timedOut) < filesPause
}

func (s *seenFiles) pause() {
	s.mu.Lock()
	defer s.mu.Unlock()

	s.timedOut = time.Now()
}

func (s *seenFiles) without(paths []string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()

	return slices.DeleteFunc(slices.Clone(paths), func(p string) bool { return s.paths[p] })
}

func (s *seenFiles) add(paths ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()

	if s.paths == nil {
		s.paths = make(map[string]bool)
	}

	for _, p := range paths {
		s.paths[p] = true
	}
}

// FindFiles looks for files on the host, all at once. A file that no host can tell of is undecided: what keeps us from
// looking need not keep QEMU from opening it.
func (inv *Inventory) FindFiles(ctx context.Context, h *Host, wanted []string) map[string]FileFinding {
	paths := h.files.without(wanted)
	if len(paths) == 0 {
		return nil
	}

	found := make(map[string]FileFinding, len(paths))

	if h.Config.Absent == nil {
		ctx, cancel := context.WithTimeout(ctx, filesTimeout)
		defer cancel()

		for _, p := range paths {
			found[p] = h.findVolume(ctx, p)
		}

		return found
	}

	// A server allows a connection a few programs at a time only.
	unlock, err := inv.reading.Lock(ctx, h.Name)
	if err != nil {
		return nil
	}
	defer unlock()

	if h.files.pausing() {
		return unknown(paths)
	}

	// The time that others took before us doesn't count.
	ctx, cancel := context.WithTimeout(ctx, filesTimeout)
	defer cancel()

	absent, err := h.Config.Absent(ctx, paths...)
	if err != nil {
		inv.log.DebugContext(ctx, "it is unknown which files there are", "host", h.Name, "error", err)

		if ctx.Err() == nil {
			return nil
		}

		h.files.pause()

		return unknown(paths)
	}

	for _, p := range paths {
		if slices.Contains(absent, p) {
			found[p] = FileAbsent
		} else {
			h.files.add(p)
		}
	}

	return found
}

func unknown(paths []string) map[string]FileFinding {
	found := make(map[string]FileFinding, len(paths))
	for _, p := range paths {
		found[p] = FileUnknown
	}

	return found
}

// findVolume asks libvirt, which knows of the files in its storage pools only, as they were when they were last
// refreshed.
func (h *Host) findVolume(ctx context.Context, file string) FileFinding {
	if _, err := h.Conn.VolumeByPath(ctx, file); !IsNotFound(err) {
		return fileUndecided
	}

	if _, err := h.Conn.FreeSpace(ctx, path.Dir(file)); err != nil {
		return fileUndecided
	}

	return FileDoubtful
}
