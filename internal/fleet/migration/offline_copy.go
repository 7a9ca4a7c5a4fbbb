package migration

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// OfflineCopy is the set of files that a move of a VM that is off copies to the target.
type OfflineCopy struct {
	source, target *libvirt.Host
	log            *slog.Logger
	items          []copyItem
	// parents are directories that have to be there first, and are not the VM's.
	parents []copyItem
	// made are the paths of what was made on the target so far.
	made []string
	// kept is what neither host's definition takes along when it goes, because both name the same.
	kept []libvirt.Kept
}

// copyItem is one file or directory. Directories come before what is in them.
type copyItem struct {
	localFile
	volume libvirt.Volume
	// empty is how long the file is on the target before anything is copied into it, by which it is known again.
	empty uint64
}

// PlanOfflineCopy finds out what is to be copied: it looks at both hosts, anew and wherever the files are, tries
// whether what is declared to be shared is, and changes nothing else. The blockers are what prevents it; with any that
// is certain nothing must be copied.
func PlanOfflineCopy(
	ctx context.Context, vm VM, source, target *libvirt.Host, o Options, log *slog.Logger,
) (*OfflineCopy, []Blocker, error) {
	p := &offlinePlanner{
		plan: &OfflineCopy{source: source, target: target, log: log}, need: spaceNeeds{}, available: map[string]uint64{},
		preflight: preflight{vm: vm, source: source, target: target, options: o, probeFiles: true},
	}
	copied, shared := o.splitLocalFiles(vm)
	if err := p.checkShared(ctx, shared); err != nil || len(p.blockers) > 0 {
		return nil, p.blockers, err
	}
	byDir := map[string][]localFile{}
	var dirs []string
	for _, b := range copied {
		dir := path.Dir(b.path)
		if byDir[dir] == nil {
			dirs = append(dirs, dir)
		}
		byDir[dir] = append(byDir[dir], b)
	}
	for _, dir := range dirs {
		if err := p.planDirectory(ctx, dir, byDir[dir]); err != nil {
			return nil, nil, err
		}
	}
	for _, dir := range p.need.dirs() {
		p.blockers.checkFreeSpace(dir, p.need[dir].bytes, p.available[dir], target)
	}
	return p.plan, p.blockers, nil
}

// offlinePlanner holds what PlanOfflineCopy has found so far.
type offlinePlanner struct {
	plan      *OfflineCopy
	preflight preflight
	blockers  blockerList
	need      spaceNeeds
	available map[string]uint64
}

// checkShared makes sure that the target has what isn't copied.
func (p *offlinePlanner) checkShared(ctx context.Context, shared []localFile) (err error) {
	if p.blockers, err = p.preflight.verifyShared(ctx); err != nil || len(p.blockers) > 0 {
		return err
	}
	for _, b := range shared {
		p.preflight.checkSharedChain(ctx, &p.blockers, b)
		if b.reason == NVRAMNotMigratable && p.plan.kept == nil {
			p.plan.kept = []libvirt.Kept{libvirt.KeepNVRAM}
		}
	}
	return context.Cause(ctx)
}

// planDirectory plans to copy what is in one directory of the source.
func (p *offlinePlanner) planDirectory(ctx context.Context, dir string, all []localFile) error {
	source, target := p.plan.source, p.plan.target
	names := make([]string, len(all))
	for i, b := range all {
		names[i] = path.Base(b.path)
	}
	here, _, err := listDirectory(ctx, source, dir, names...)
	if err != nil {
		return err
	}
	there, exists, err := listDirectory(ctx, target, dir, names...)
	if err != nil {
		return err
	}
	p.available[dir] = there.Available
	if !exists && len(here.Files) > 0 {
		if err := p.planMissingDirectory(ctx, dir, all[0]); err != nil {
			return err
		}
	}
	for _, b := range all {
		if err := p.planFile(ctx, b, here.Files, there.Files); err != nil {
			return err
		}
	}
	return nil
}

// planFile plans to copy one file, from what there is in its directory at the source and on the target.
func (p *offlinePlanner) planFile(ctx context.Context, b localFile, here, there map[string]libvirt.Volume) error {
	name := path.Base(b.path)
	file, ok := here[name]
	other, exists := there[name]
	switch {
	case !ok && !b.mayBeAbsent():
		p.blockers.block(b.reason, b.attribute, fmt.Sprintf("%s is %s, and host %q has no such file", b.what, b.path,
			p.plan.source.Name()), "Put the file back, or take the disk out of the VM.")
	case exists && b.sameMedium(file, other):
	case exists:
		p.blockers.pathTaken(b, p.plan.target)
	case !ok:
	case b.isDirectory:
		return p.planTree(ctx, b, b, file)
	case p.preflight.checkOfflineFile(ctx, &p.blockers, b, file):
		p.addItem(b, b, file)
	}
	return nil
}

// listDirectory reads a directory that may not exist, which is found out from the one above it: it is empty then, with
// the room that there is above.
func listDirectory(
	ctx context.Context, h *libvirt.Host, dir string, names ...string,
) (*libvirt.Directory, bool, error) {
	d, err := h.Directory(ctx, dir, names...)
	if err == nil {
		return d, true, nil
	}
	if ctx.Err() != nil || errors.Is(err, libvirt.ErrUnreachable) {
		return nil, false, err
	}
	if dir == "/" {
		return nil, false, err
	}
	above, _, aboveErr := listDirectory(ctx, h, path.Dir(dir), path.Base(dir))
	if aboveErr != nil {
		return nil, false, err
	}
	if _, there := above.Files[path.Base(dir)]; there {
		return nil, false, err
	}
	return &libvirt.Directory{Available: above.Available}, false, nil
}

// planMissingDirectory deals with a directory that the target lacks. That of all TPMs libvirt makes when the first one
// is started, and so do we; it isn't one VM's, and stays.
func (p *offlinePlanner) planMissingDirectory(ctx context.Context, dir string, b localFile) error {
	if !b.isDirectory {
		p.blockers.block(b.reason, b.attribute, fmt.Sprintf("%s would be copied to directory %s, which host %q does not have",
			b.what, dir, p.plan.target.Name()), "Make the directory there.")
		return nil
	}
	above, err := p.plan.source.Directory(ctx, path.Dir(dir), path.Base(dir))
	if err != nil {
		return err
	}
	p.plan.parents = append(p.plan.parents, copyItem{localFile: localFile{path: dir}, volume: above.Files[path.Base(dir)]})
	return nil
}

// addItem adds a file to the plan. on stands for the directory whose room it takes.
func (p *offlinePlanner) addItem(b, on localFile, file libvirt.Volume) {
	p.need.add(on, copySize(file))
	it := copyItem{localFile: b, volume: file}
	if file.Type != "dir" && file.PhysicalBytes > 0 {
		it.empty = 1 + rand.Uint64N(file.PhysicalBytes) //nolint:gosec // It is to be rare, not secret.
	}
	p.plan.items = append(p.plan.items, it)
}

// planTree plans to copy a directory with all that is in it. Files that begin with a dot belong to the processes there.
func (p *offlinePlanner) planTree(ctx context.Context, b, on localFile, top libvirt.Volume) error {
	top.Type = "dir"
	p.addItem(b, on, top)
	d, err := p.plan.source.Directory(ctx, b.path)
	if err != nil {
		return err
	}
	for _, name := range sortedNames(d.Files) {
		inner := b
		inner.path = path.Join(b.path, name)
		file := d.Files[name]
		switch {
		case strings.HasPrefix(name, "."):
		case file.Type == "dir":
			if err := p.planTree(ctx, inner, on, file); err != nil {
				return err
			}
		case p.blockers.checkPlainFile(inner, file):
			p.addItem(inner, on, file)
		}
	}
	return nil
}

func sortedNames(files map[string]libvirt.Volume) []string {
	all := make([]string, 0, len(files))
	for name := range files {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// Paths are what Copy makes on the target, in its order.
func (l *OfflineCopy) Paths() []string {
	paths := make([]string, len(l.items))
	for i, it := range l.items {
		paths[i] = it.path
	}
	return paths
}

// Disks are the disks that are copied, without media that are only read and without what was made with the VM.
func (l *OfflineCopy) Disks() []string {
	var paths []string
	for _, it := range l.items {
		if it.disk != "" && !it.readOnly && it.mobile.Own == nil {
			paths = append(paths, it.path)
		}
	}
	return paths
}

// Kept is what has to stay on either host when the VM's definition there goes.
func (l *OfflineCopy) Kept() []libvirt.Kept { return l.kept }

// progressInterval is how often the log tells how far a copy is.
const progressInterval = 5 * time.Second

// Made are the paths that Copy has made on the target, in its order: nothing that was there before.
func (l *OfflineCopy) Made() []string { return l.made }

// Copy makes everything on the target; each file is there as a whole, as CopyFile says, when it returns nil. After an
// error what it made is still there, see Made and DiscardCopies. note is told of everything that was made before
// anything is copied into it. The job is told how far it is, and holds when Copy has returned.
func (l *OfflineCopy) Copy(ctx context.Context, job *libvirt.Job, note func(path string) error) error {
	began := time.Now()
	*job = libvirt.Job{}
	for _, it := range l.parents {
		err := l.target.MakeDirectory(ctx, it.path, it.volume)
		if err != nil && !errors.Is(err, libvirt.ErrExists) {
			return err
		}
	}
	for _, it := range l.items {
		job.Data.Total += it.volume.PhysicalBytes
	}
	job.Data.Remaining = job.Data.Total
	job.Disk = job.Data
	for _, it := range l.items {
		if it.volume.Type == "dir" {
			err := l.target.MakeDirectory(ctx, it.path, it.volume)
			if err == nil {
				l.made = append(l.made, it.path)
				err = note(it.path)
			}
			if err != nil {
				return err
			}
			continue
		}
		l.log.InfoContext(ctx, "copying", "file", it.path, "bytes", it.volume.PhysicalBytes, "source", l.source.Name(),
			"target", l.target.Name())
		before, logged := job.Data.Processed, time.Now()
		made := func() error {
			l.made = append(l.made, it.path)
			return note(it.path)
		}
		err := l.source.CopyFile(ctx, it.path, l.target, it.empty, made, func(bytes uint64) {
			job.Data.Processed = before + bytes
			job.Data.Remaining = job.Data.Total - min(job.Data.Total, job.Data.Processed)
			job.Disk, job.Elapsed = job.Data, time.Since(began)
			if time.Since(logged) >= progressInterval {
				logged = time.Now()
				l.log.InfoContext(ctx, "copying", "file", it.path, "copied",
					domain.FormatProgress(job.Data.Processed), "of", domain.FormatProgress(job.Data.Total),
					"elapsed", job.Elapsed.Round(time.Second))
			}
		})
		if err != nil {
			return err
		}
	}
	job.Elapsed = time.Since(began)
	return nil
}

// VerifyUnchanged checks that the files at the source are still those that were planned: a VM that was started
// meanwhile has written to them. The target must still have all of them.
func (l *OfflineCopy) VerifyUnchanged(ctx context.Context) error {
	for _, it := range l.items {
		here, err := l.source.Directory(ctx, path.Dir(it.path), path.Base(it.path))
		if err != nil {
			return err
		}
		now := here.Files[path.Base(it.path)]
		if now.Changed != it.volume.Changed || now.PhysicalBytes != it.volume.PhysicalBytes {
			return fmt.Errorf("%w: %s (%s) was written to, moved or removed on host %q while it was copied", libvirt.ErrBusy,
				it.path, it.what, l.source.Name())
		}
		there, err := l.target.Directory(ctx, path.Dir(it.path), path.Base(it.path))
		if err != nil {
			return err
		}
		if copied, ok := there.Files[path.Base(it.path)]; !ok || it.volume.Type != "dir" &&
			copied.PhysicalBytes != it.volume.PhysicalBytes {
			return fmt.Errorf("%w: the copy of %s (%s) was changed or removed on host %q", libvirt.ErrBusy, it.path, it.what,
				l.target.Name())
		}
	}
	return nil
}

// DiscardCopies removes from a host what a move made there of the paths, the last first. What isn't there is no error,
// and what a domain of the host uses by now is that domain's, and stays.
func DiscardCopies(ctx context.Context, host *libvirt.Host, paths []string) error {
	var failures []error
	for _, p := range slices.Backward(paths) {
		file, err := fileOn(ctx, host, p)
		used := false
		if err == nil && file != nil {
			used, err = usedOn(ctx, host, p)
		}
		if err == nil && file != nil && !used {
			err = host.RemoveFile(ctx, p)
		}
		failures = append(failures, err)
	}
	return errors.Join(failures...)
}

// DiscardLeftCopies removes what a move made a while ago on the host. home is the host that the VM is on: both may
// share by now what they did not share then, declared or not. What is the VM's own file stays.
func DiscardLeftCopies(ctx context.Context, host, home *libvirt.Host, paths []string) error {
	var apart []string
	for _, p := range paths {
		if slices.ContainsFunc(apart, func(dir string) bool { return strings.HasPrefix(p, dir+"/") }) {
			apart = append(apart, p)
			continue
		}
		one, err := IsSameFile(ctx, host, home, p)
		if err != nil {
			return err
		}
		if !one {
			apart = append(apart, p)
		}
	}
	return DiscardCopies(ctx, host, apart)
}

// IsSameFile says whether what two hosts have under a path is one file. That both say it was changed at the same time
// proves it; another time proves nothing, as not every filesystem says the same everywhere, and it is tried.
func IsSameFile(ctx context.Context, on, other *libvirt.Host, file string) (bool, error) {
	here, err := fileOn(ctx, on, file)
	if err != nil || here == nil {
		return false, err
	}
	there, err := fileOn(ctx, other, file)
	if err != nil || there == nil {
		return false, err
	}
	if isShared(here, there) {
		return true, nil
	}
	return preflight{source: on, target: other}.probeShared(ctx, path.Dir(file))
}
