package inventory

import (
	"context"
	"path"
	"slices"
	"sync"
	"time"
)

// filesTimeout bounds the looking for a VM's files on one host. Storage
// that hangs is not a reason to keep a plan.
const filesTimeout = 10 * time.Second

// FileFinding is what a host said of a file that a VM needs.
type FileFinding int

// What a host may say of a file.
const (
	fileUndecided FileFinding = iota // there, or unknown
	FileDoubtful                     // the storage pool that it would be in doesn't know it
	FileAbsent
)

// seenFiles are the paths that were found on a host. They are not looked for
// again: what vanishes after that is told when the VM is started.
type seenFiles struct {
	mu    sync.Mutex
	paths map[string]bool
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

// FindFiles looks for files on the host, all at once. A file that no host can
// tell of is undecided: what keeps us from looking need not be in QEMU's
// way.
func (inv *Inventory) FindFiles(ctx context.Context, h *Host, wanted []string) map[string]FileFinding {
	paths := h.files.without(wanted)
	if len(paths) == 0 {
		return nil
	}

	ctx, cancel := context.WithTimeout(ctx, filesTimeout)
	defer cancel()

	found := make(map[string]FileFinding, len(paths))

	if h.Config.Absent == nil {
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

	absent, err := h.Config.Absent(ctx, paths...)
	if err != nil {
		inv.log.DebugContext(ctx, "it is unknown which files there are", "host", h.Name, "error", err)

		return nil
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

// findVolume asks libvirt, which knows of the files in its storage pools only,
// as they were when they were last refreshed.
func (h *Host) findVolume(ctx context.Context, file string) FileFinding {
	if _, err := h.Conn.VolumeByPath(ctx, file); !IsNotFound(err) {
		return fileUndecided
	}

	if _, err := h.Conn.Room(ctx, path.Dir(file)); err != nil {
		return fileUndecided
	}

	return FileDoubtful
}
