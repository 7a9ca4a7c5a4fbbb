package fleet

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"sync"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
)

// filesTimeout bounds the looking for a machine's files on one host. Storage
// that hangs is not a reason to keep a plan.
const filesTimeout = 10 * time.Second

// fileFinding is what a host said of a file that a machine needs.
type fileFinding int

const (
	fileUndecided fileFinding = iota // there, or nobody can tell
	fileDoubtful                     // the storage pool that it would be in doesn't know it
	fileAbsent
)

// seenFiles are the paths that were found on a host. They are not looked for
// again: what vanishes after that is told when the machine is started.
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

// findFiles looks for files on the host, all at once. A file that nobody can
// tell of is undecided: what keeps somebody from looking need not be in QEMU's
// way.
func (f *Fleet) findFiles(ctx context.Context, h *host, wanted []string) map[string]fileFinding {
	paths := h.files.without(wanted)
	if len(paths) == 0 {
		return nil
	}

	ctx, cancel := context.WithTimeout(ctx, filesTimeout)
	defer cancel()

	found := make(map[string]fileFinding, len(paths))

	if h.cfg.Absent == nil {
		for _, p := range paths {
			found[p] = h.findVolume(ctx, p)
		}

		return found
	}

	// A server allows a connection a few programs at a time only.
	unlock, err := f.mutexes.Lock(ctx, "files/"+h.name)
	if err != nil {
		return nil
	}
	defer unlock()

	absent, err := h.cfg.Absent(ctx, paths...)
	if err != nil {
		f.log.DebugContext(ctx, "nobody can tell which files there are", "host", h.name, "error", err)

		return nil
	}

	for _, p := range paths {
		if slices.Contains(absent, p) {
			found[p] = fileAbsent
		} else {
			h.files.add(p)
		}
	}

	return found
}

// findVolume asks libvirt, which knows of the files in its storage pools only,
// as they were when they were last refreshed.
func (h *host) findVolume(ctx context.Context, file string) fileFinding {
	if _, err := h.conn.VolumeByPath(ctx, file); !isNotFound(err) {
		return fileUndecided
	}

	if _, err := h.conn.Room(ctx, path.Dir(file)); err != nil {
		return fileUndecided
	}

	return fileDoubtful
}

// fitsFiles says which files that the machine needs are not on the host, and
// which may not be: problems where it can't run without them, else doubts.
func (f *Fleet) fitsFiles(ctx context.Context, h *host, d Desired, runs bool) (problems, doubts []Problem) {
	found := f.findFiles(ctx, h, slices.Compact(slices.Sorted(maps.Values(d.Files))))

	for _, attribute := range slices.Sorted(maps.Keys(d.Files)) {
		file := d.Files[attribute]

		p := Problem{Attribute: attribute, Detail: fmt.Sprintf("it has no file %q", file)}
		doubt := Problem{Attribute: attribute, Warning: true, Summary: "File not found on the host", Remedy: remedyOfFiles}

		switch found[file] {
		case fileAbsent:
			doubt.Detail = fmt.Sprintf("Machine %q has %s = %q, and host %q has no such file. It is not started now; it "+
				"could not be.", d.Spec.Name, attribute, file, h.name)
		case fileDoubtful:
			doubt.Detail = fmt.Sprintf("Machine %q has %s = %q, and the storage pool of that directory on host %q has no "+
				"such volume, as it was when it was refreshed last.", d.Spec.Name, attribute, file, h.name)
		default:
			continue
		}

		if runs && found[file] == fileAbsent {
			problems = append(problems, p)
		} else {
			doubts = append(doubts, doubt)
		}
	}

	return problems, doubts
}

// remedyOfFiles is for what is missing on a host.
const remedyOfFiles = "Correct the path, or put the file there first. If another resource of this configuration " +
	"makes it, take the path from an attribute of that resource that is known after apply: that isn't looked for."

// judgeFiles looks for the machine's files on the hosts that fit otherwise.
func (f *Fleet) judgeFiles(ctx context.Context, all []candidate, d Desired) {
	if len(d.Files) == 0 {
		return
	}

	var wg sync.WaitGroup

	for i := range all {
		if c := &all[i]; len(c.problems) == 0 {
			wg.Go(func() {
				c.problems, c.doubts = f.fitsFiles(ctx, c.host, d, status.StartsOnCreate(d.strategy()))
			})
		}
	}

	wg.Wait()
	sortCandidates(all)
}

// runsOn says whether the machine will run after the change.
func (d Desired) runsOn(vm *VM) bool {
	switch d.powerAction(vm) {
	case status.Start:
		return true
	case status.Stop:
		return false
	default:
		return vm.Active
	}
}

// newFiles leaves out the files that the machine has already.
func (d Desired) newFiles(vm *VM) map[string]string {
	have := vm.declaredSpec()

	var known []string

	for _, disk := range have.Disks {
		known = append(known, disk.Source.File, disk.Source.Block)
	}

	if have.Kernel != nil {
		known = append(known, have.Kernel.Path, have.Kernel.Initrd)
	}

	files := maps.Clone(d.Files)
	maps.DeleteFunc(files, func(_, file string) bool { return slices.Contains(known, file) })

	return files
}
