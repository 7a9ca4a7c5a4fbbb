package inventory

import (
	"context"
	"path"
	"slices"
	"sync"
	"time"
)

// filesTimeout limits one check for a VM's files on one host, so that storage that hangs doesn't block a plan.
const filesTimeout = 20 * time.Second

// filesPause is how long a host that didn't answer isn't queried again, so that the VMs of a plan don't wait for it one
// after another.
const filesPause = time.Minute

// FileFinding is what a host reported about a file that a VM needs.
type FileFinding int

// What a host may report about a file.
const (
	fileUndecided FileFinding = iota // exists, or unknown
	FileDoubtful                     // unknown to the storage pool of its directory
	FileAbsent
	FileUnknown // the host didn't answer in time
)

// seenFiles are the paths that were found on a host. They are not checked again: if a file disappears later, the start
// of the VM reports it.
type seenFiles struct {
	timeouts

	mu    sync.Mutex
	paths map[string]bool
}

// timeouts says when a host last failed to answer in time.
type timeouts struct {
	mu   sync.Mutex
	last time.Time
}

func (s *timeouts) pausing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()

	return !s.last.IsZero() && time.Since(s.last) < filesPause
}

func (s *timeouts) pause() {
	s.mu.Lock()
	defer s.mu.Unlock()

	s.last = time.Now()
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

// FindFiles checks for files on the host, all in one call. A file whose existence can't be determined is undecided:
// what prevents the provider from checking doesn't necessarily prevent QEMU from opening it.
func (inv *Inventory) FindFiles(ctx context.Context, h *Host, wanted []string) map[string]FileFinding {
	paths := h.files.without(wanted)
	if len(paths) == 0 {
		return nil
	}

	found := make(map[string]FileFinding, len(paths))

	if h.Config.Exist == nil {
		ctx, cancel := context.WithTimeout(ctx, filesTimeout)
		defer cancel()

		for _, p := range paths {
			found[p] = h.findVolume(ctx, p)
		}

		return found
	}

	// An SSH server limits how many programs run over one connection at a time.
	unlock, err := inv.reading.Lock(ctx, h.Name)
	if err != nil {
		return nil
	}
	defer unlock()

	if h.files.pausing() {
		return unknown(paths)
	}

	// The time spent waiting for the lock doesn't count.
	ctx, cancel := context.WithTimeout(ctx, filesTimeout)
	defer cancel()

	exist, err := h.Config.Exist(ctx, paths...)
	if err != nil {
		inv.log.DebugContext(ctx, "it is unknown which files there are", "host", h.Name, "error", err)

		if ctx.Err() == nil {
			return nil
		}

		h.files.pause()

		return unknown(paths)
	}

	for _, p := range paths {
		if there, known := exist[p]; there {
			h.files.add(p)
		} else if known {
			found[p] = FileAbsent
		}
	}

	return found
}

// FilesOn returns, by path, whether the host has the files. A file of which that is unknown isn't in the result.
func (inv *Inventory) FilesOn(ctx context.Context, h *Host, paths []string) map[string]bool {
	found := inv.FindFiles(ctx, h, paths)
	there := make(map[string]bool, len(paths))

	for _, p := range paths {
		switch {
		case found[p] == FileAbsent:
			there[p] = false
		case len(h.files.without([]string{p})) == 0:
			there[p] = true
		}
	}

	return there
}

func unknown(paths []string) map[string]FileFinding {
	found := make(map[string]FileFinding, len(paths))
	for _, p := range paths {
		found[p] = FileUnknown
	}

	return found
}

// findVolume queries libvirt, which knows only the files in its storage pools, as of the last refresh of the pool.
func (h *Host) findVolume(ctx context.Context, file string) FileFinding {
	if _, err := h.Conn.VolumeByPath(ctx, file); !IsNotFound(err) {
		return fileUndecided
	}

	if _, err := h.Conn.FreeSpace(ctx, path.Dir(file)); err != nil {
		return fileUndecided
	}

	return FileDoubtful
}
