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

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// Luggage is what a VM that is off takes along: the files that are copied to the target.
type Luggage struct {
	source, target *libvirt.Host
	log            *slog.Logger
	items          []item
	// above are directories that have to be there first, and are not the VM's.
	above []item
	// made are the paths of what was made on the target so far.
	made []string
	// stays is what neither host's definition takes along when it goes, because both name the same.
	stays []libvirt.Kept
}

// item is one file or directory. Directories come before what is in them.
type item struct {
	belonging
	volume libvirt.Volume
	// empty is how long the file is on the target before anything is copied into it, by which it is known again.
	empty uint64
}

// Pack finds out what is to be copied: it looks at both hosts, anew and wherever the files are, tries whether what is
// declared to be shared is, and changes nothing else. The blockers are what prevents it; with any that is certain
// nothing must be copied.
func Pack(
	ctx context.Context, m Machine, source, target *libvirt.Host, o Options, log *slog.Logger,
) (*Luggage, []Blocker, error) {
	p := &packing{
		luggage: &Luggage{source: source, target: target, log: log}, need: needs{}, room: map[string]uint64{},
		to: toTarget{machine: m, source: source, target: target, options: o, closely: true},
	}
	carried, shared := o.belongings(m)
	if err := p.leave(ctx, shared); err != nil || len(p.found) > 0 {
		return nil, p.found, err
	}
	byDir := map[string][]belonging{}
	var dirs []string
	for _, b := range carried {
		dir := path.Dir(b.path)
		if byDir[dir] == nil {
			dirs = append(dirs, dir)
		}
		byDir[dir] = append(byDir[dir], b)
	}
	for _, dir := range dirs {
		if err := p.directory(ctx, dir, byDir[dir]); err != nil {
			return nil, nil, err
		}
	}
	for _, dir := range p.need.dirs() {
		p.found.room(dir, p.need[dir].bytes, p.room[dir], target)
	}
	return p.luggage, p.found, nil
}

// packing is what Pack knows so far.
type packing struct {
	luggage *Luggage
	to      toTarget
	found   finding
	need    needs
	room    map[string]uint64
}

// leave makes sure that the target has what isn't packed.
func (p *packing) leave(ctx context.Context, shared []belonging) (err error) {
	if p.found, err = p.to.proveShared(ctx); err != nil || len(p.found) > 0 {
		return err
	}
	for _, b := range shared {
		p.to.same(ctx, &p.found, b)
		if b.reason == NVRAMNotMigratable && p.luggage.stays == nil {
			p.luggage.stays = []libvirt.Kept{libvirt.KeepVariables}
		}
	}
	return context.Cause(ctx)
}

// directory packs what is in one directory of the source.
func (p *packing) directory(ctx context.Context, dir string, all []belonging) error {
	source, target := p.luggage.source, p.luggage.target
	names := make([]string, len(all))
	for i, b := range all {
		names[i] = path.Base(b.path)
	}
	here, _, err := list(ctx, source, dir, names...)
	if err != nil {
		return err
	}
	there, exists, err := list(ctx, target, dir, names...)
	if err != nil {
		return err
	}
	p.room[dir] = there.Available
	if !exists && len(here.Files) > 0 {
		if err := p.missing(ctx, dir, all[0]); err != nil {
			return err
		}
	}
	for _, b := range all {
		if err := p.pack(ctx, b, here.Files, there.Files); err != nil {
			return err
		}
	}
	return nil
}

// pack packs one belonging, from what there is in its directory at the source and on the target.
func (p *packing) pack(ctx context.Context, b belonging, here, there map[string]libvirt.Volume) error {
	name := path.Base(b.path)
	file, ok := here[name]
	other, exists := there[name]
	switch {
	case !ok && !b.unstarted():
		p.found.block(b.reason, b.attribute, fmt.Sprintf("%s is %s, and host %q has no such file", b.what, b.path,
			p.luggage.source.Name()), "Put the file back, or take the disk out of the VM.")
	case exists && b.sameMedium(file, other):
	case exists:
		p.found.taken(b, p.luggage.target)
	case !ok:
	case b.tree:
		return p.tree(ctx, b, b, file)
	case p.to.copyable(ctx, &p.found, b, file):
		p.add(b, b, file)
	}
	return nil
}

// list reads a directory that may not exist, which is found out from the one above it: it is empty then, with the room
// that there is above.
func list(ctx context.Context, h *libvirt.Host, dir string, names ...string) (*libvirt.Directory, bool, error) {
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
	above, _, aboveErr := list(ctx, h, path.Dir(dir), path.Base(dir))
	if aboveErr != nil {
		return nil, false, err
	}
	if _, there := above.Files[path.Base(dir)]; there {
		return nil, false, err
	}
	return &libvirt.Directory{Available: above.Available}, false, nil
}

// missing deals with a directory that the target lacks. That of all TPMs libvirt makes when the first one is started,
// and so do we; it isn't one VM's, and stays.
func (p *packing) missing(ctx context.Context, dir string, b belonging) error {
	if !b.tree {
		p.found.block(b.reason, b.attribute, fmt.Sprintf("%s would be copied to directory %s, which host %q does not have",
			b.what, dir, p.luggage.target.Name()), "Make the directory there.")
		return nil
	}
	above, err := p.luggage.source.Directory(ctx, path.Dir(dir), path.Base(dir))
	if err != nil {
		return err
	}
	p.luggage.above = append(p.luggage.above, item{belonging: belonging{path: dir}, volume: above.Files[path.Base(dir)]})
	return nil
}

// add packs a file. on stands for the directory whose room it takes.
func (p *packing) add(b, on belonging, file libvirt.Volume) {
	p.need.add(on, weight(file))
	it := item{belonging: b, volume: file}
	if file.Type != "dir" && file.PhysicalBytes > 0 {
		it.empty = 1 + rand.Uint64N(file.PhysicalBytes) //nolint:gosec // It is to be rare, not secret.
	}
	p.luggage.items = append(p.luggage.items, it)
}

// tree packs a directory with all that is in it. What begins with a dot is the business of the processes there.
func (p *packing) tree(ctx context.Context, b, on belonging, top libvirt.Volume) error {
	top.Type = "dir"
	p.add(b, on, top)
	d, err := p.luggage.source.Directory(ctx, b.path)
	if err != nil {
		return err
	}
	for _, name := range names(d.Files) {
		inner := b
		inner.path = path.Join(b.path, name)
		file := d.Files[name]
		switch {
		case strings.HasPrefix(name, "."):
		case file.Type == "dir":
			if err := p.tree(ctx, inner, on, file); err != nil {
				return err
			}
		case p.found.copyable(inner, file):
			p.add(inner, on, file)
		}
	}
	return nil
}

func names(files map[string]libvirt.Volume) []string {
	all := make([]string, 0, len(files))
	for name := range files {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// Paths are what Copy makes on the target, in its order.
func (l *Luggage) Paths() []string {
	paths := make([]string, len(l.items))
	for i, it := range l.items {
		paths[i] = it.path
	}
	return paths
}

// Disks are the disks that are copied, without media that are only read and without what was made with the VM.
func (l *Luggage) Disks() []string {
	var paths []string
	for _, it := range l.items {
		if it.disk != "" && !it.readOnly && it.mobile.Own == nil {
			paths = append(paths, it.path)
		}
	}
	return paths
}

// Stays is what has to stay on either host when the VM's definition there goes.
func (l *Luggage) Stays() []libvirt.Kept { return l.stays }

// progressInterval is how often the log tells how far a copy is.
const progressInterval = 5 * time.Second

// Made are the paths that Copy has made on the target, in its order: nothing that was there before.
func (l *Luggage) Made() []string { return l.made }

// Copy makes everything on the target; each file is there as a whole, as CopyFile says, when it returns nil. After an
// error what it made is still there, see Made and Discard. note is told of everything that was made before anything is
// copied into it. The job is told how far it is, and holds when Copy has returned.
func (l *Luggage) Copy(ctx context.Context, job *libvirt.Job, note func(path string) error) error {
	began := time.Now()
	*job = libvirt.Job{}
	for _, it := range l.above {
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
				l.log.InfoContext(ctx, "copying", "file", it.path, "copied", bytesText(job.Data.Processed), "of",
					bytesText(job.Data.Total), "elapsed", job.Elapsed.Round(time.Second))
			}
		})
		if err != nil {
			return err
		}
	}
	job.Elapsed = time.Since(began)
	return nil
}

// Unchanged checks that the files at the source are still those that were packed: a VM that was started meanwhile
// has written to them. The target must still have all of them.
func (l *Luggage) Unchanged(ctx context.Context) error {
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

// Discard removes from a host what a move made there of the paths, the last first. What isn't there is no error, and
// what a domain of the host uses by now is that domain's, and stays.
func Discard(ctx context.Context, host *libvirt.Host, paths []string) error {
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

// DiscardLeft is Discard for what a move made a while ago, and home the host that the VM is on. Both may share by
// now what they did not share then, declared or not: what is the VM's own file stays.
func DiscardLeft(ctx context.Context, host, home *libvirt.Host, paths []string) error {
	var apart []string
	for _, p := range paths {
		if slices.ContainsFunc(apart, func(dir string) bool { return strings.HasPrefix(p, dir+"/") }) {
			apart = append(apart, p)
			continue
		}
		one, err := IsOne(ctx, host, home, p)
		if err != nil {
			return err
		}
		if !one {
			apart = append(apart, p)
		}
	}
	return Discard(ctx, host, apart)
}

// IsOne says whether what two hosts have under a path is one file. That both say it was changed at the same time proves
// it; another time proves nothing, as not every filesystem says the same everywhere, and it is tried.
func IsOne(ctx context.Context, on, other *libvirt.Host, file string) (bool, error) {
	here, err := fileOn(ctx, on, file)
	if err != nil || here == nil {
		return false, err
	}
	there, err := fileOn(ctx, other, file)
	if err != nil || there == nil {
		return false, err
	}
	if shared(here, there) {
		return true, nil
	}
	return toTarget{source: on, target: other}.spans(ctx, path.Dir(file))
}
