package migration

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// OfflineCopy is the set of files that the move of a stopped VM copies to the target.
type OfflineCopy struct {
	source, target *libvirt.Host
	log            *slog.Logger
	items          []copyItem
	// parents are directories that have to exist first and don't belong to the VM.
	parents []copyItem
	// made lists the paths that were made on the target so far.
	made []string
	// kept lists what neither host may remove with its definition, because both definitions name the same file.
	kept []libvirt.Kept
}

// copyItem is one file or directory. Directories come before their contents.
type copyItem struct {
	localFile
	volume libvirt.Volume
	// empty is the length of the file on the target before anything is copied into it, by which a later run recognizes
	// it.
	empty uint64
}

// PlanOfflineCopy finds out what is to be copied. It looks at the files themselves on both hosts, verifies that what is
// declared as shared is shared, and changes nothing else. It returns what blocks the copying. While any blocker is
// certain nothing may be copied.
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
		p.preflight.checkFreeSpace(ctx, &p.blockers, dir, p.need[dir].bytes, p.available[dir])
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

// checkShared verifies that the target has the files that aren't copied.
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

// planDirectory plans to copy the VM's files in one directory of the source.
func (p *offlinePlanner) planDirectory(ctx context.Context, dir string, all []localFile) error {
	source, target := p.plan.source, p.plan.target
	names := make([]string, len(all))
	for i, b := range all {
		names[i] = path.Base(b.path)
	}
	here, _, err := source.DirectoryIfThere(ctx, dir, names...)
	if err != nil {
		return err
	}
	there, exists, err := target.DirectoryIfThere(ctx, dir, names...)
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

// planFile plans to copy one file, given the contents of its directory at the source and on the target.
func (p *offlinePlanner) planFile(ctx context.Context, b localFile, here, there map[string]libvirt.Volume) error {
	name := path.Base(b.path)
	file, ok := here[name]
	other, exists := there[name]
	if exists && b.sameMedium(file, other) {
		if same, err := p.preflight.beginsAlike(ctx, b.path); err != nil || same {
			return err
		}
	}
	switch {
	case exists && !ok:
		p.preflight.pathTaken(&p.blockers, b, isAbsent)
	case !ok && !b.mayBeAbsent():
		p.blockers.block(b.reason, b.attribute, fmt.Sprintf("%s is %s, and host %q has no such file", b.what, b.path,
			p.plan.source.Name()), "Put the file back, or take the disk out of the VM.")
	case exists:
		p.preflight.pathTaken(&p.blockers, b, isThere)
	case !ok:
	case b.isDirectory:
		return p.planTree(ctx, b, b, file)
	case p.preflight.checkOfflineFile(ctx, &p.blockers, b, file):
		p.addItem(b, b, file)
	}
	return nil
}

// planMissingDirectory handles a directory that the target lacks. libvirt makes the directory of all TPMs when it first
// starts a VM that has one, and so does the move. This directory doesn't belong to one VM, so it stays.
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

// addItem adds a file to the plan. on is the file whose directory provides the room.
func (p *offlinePlanner) addItem(b, on localFile, file libvirt.Volume) {
	p.need.add(on, copySize(file))
	it := copyItem{localFile: b, volume: file}
	if file.Type != "dir" && file.PhysicalBytes > 0 {
		it.empty = 1 + rand.Uint64N(file.PhysicalBytes) //nolint:gosec // It has to be rare, not secret.
	}
	p.plan.items = append(p.plan.items, it)
}

// planTree plans to copy a directory with its contents. Files that begin with a dot belong to the processes there.
func (p *offlinePlanner) planTree(ctx context.Context, b, on localFile, top libvirt.Volume) error {
	top.Type = "dir"
	p.addItem(b, on, top)
	d, err := p.plan.source.Directory(ctx, b.path)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(d.Files)) {
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

// Paths returns the paths that Copy makes on the target, in order.
func (l *OfflineCopy) Paths() []string {
	paths := make([]string, len(l.items))
	for i, it := range l.items {
		paths[i] = it.path
	}
	return paths
}

// Disks returns the disks that are copied, without read-only media and without disks that were made with the VM.
func (l *OfflineCopy) Disks() []string {
	var paths []string
	for _, it := range l.items {
		if it.disk != "" && !it.readOnly && it.mobile.Own == nil {
			paths = append(paths, it.path)
		}
	}
	return paths
}

// Kept returns what has to stay on either host when the VM's definition there is removed.
func (l *OfflineCopy) Kept() []libvirt.Kept { return l.kept }

// progressInterval is how often the log reports the progress of a copy.
const progressInterval = 5 * time.Second

// Created returns the paths that Copy has made on the target, in order. It includes nothing that existed before.
func (l *OfflineCopy) Created() []string { return l.made }

// Copy makes everything on the target. When it returns nil, each file is complete, as CopyFile guarantees. After an
// error the files that it made still exist: see Created and DiscardCopies. It calls note with each path that it made
// before it copies anything into the file. It reports its progress to the job, whose numbers are final when Copy
// returns.
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
	byDir := map[string][]copyItem{}

	for _, it := range l.items {
		byDir[path.Dir(it.path)] = append(byDir[path.Dir(it.path)], it)
	}

	for _, dir := range slices.Sorted(maps.Keys(byDir)) {
		if err := l.verifyDirectory(ctx, dir, byDir[dir]); err != nil {
			return err
		}
	}

	return nil
}

// verifyDirectory checks that the items in one directory are unchanged on both sides.
func (l *OfflineCopy) verifyDirectory(ctx context.Context, dir string, items []copyItem) error {
	names := make([]string, len(items))
	for i, it := range items {
		names[i] = path.Base(it.path)
	}

	here, err := l.source.Directory(ctx, dir, names...)
	if err != nil {
		return err
	}

	there, err := l.target.Directory(ctx, dir, names...)
	if err != nil {
		return err
	}

	for _, it := range items {
		now := here.Files[path.Base(it.path)]
		if now.Changed != it.volume.Changed || now.PhysicalBytes != it.volume.PhysicalBytes {
			return fmt.Errorf("%w: %s (%s) was written to, moved or removed on host %q while it was copied", libvirt.ErrBusy,
				it.path, it.what, l.source.Name())
		}

		if copied, ok := there.Files[path.Base(it.path)]; !ok || it.volume.Type != "dir" &&
			copied.PhysicalBytes != it.volume.PhysicalBytes {
			return fmt.Errorf("%w: the copy of %s (%s) was changed or removed on host %q", libvirt.ErrBusy, it.path, it.what,
				l.target.Name())
		}
	}

	return nil
}
