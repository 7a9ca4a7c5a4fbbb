package inventory

import (
	"context"
	"path"
	"slices"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// MarksInView is FileMarks as of the host's view: the VMs of a plan have files in the same directories, so a host lists
// each of these once for all of them.
func (inv *Inventory) MarksInView(ctx context.Context, a Reply, paths []string) map[string]FileMark {
	if a.View == nil {
		return inv.FileMarks(ctx, a.Host, paths)
	}

	marks := map[string]FileMark{}

	var unlisted []string

	for _, p := range paths {
		inDirectory := inv.listedMarks(ctx, a, path.Dir(path.Clean(p)))
		if m, there := inDirectory[path.Clean(p)]; there {
			marks[p] = m
		} else if inDirectory == nil {
			unlisted = append(unlisted, p)
		}
	}

	for p, m := range inv.seenMarks(ctx, a.Host, unlisted) {
		marks[p] = m
	}

	// The user who logs in may see other directories than libvirt.
	missing := slices.DeleteFunc(without(paths, marks), func(p string) bool { return a.lacksVolume(ctx, p) })
	inv.addVolumeMarks(ctx, a.Host, missing, marks)

	return marks
}

// listedMarks returns the marks of all files in a directory, nil if the user who logs in can't see all of them, or not
// in time. A listing that is late says nothing about a single file: the storage that hangs may be that of another one.
func (inv *Inventory) listedMarks(ctx context.Context, a Reply, dir string) map[string]FileMark {
	if a.Host.Config.DirectoryMarks == nil {
		return nil
	}

	marks, err := a.View.marks.get(ctx, dir, func(ctx context.Context) (map[string]FileMark, error) {
		marks, err := inv.askForMarks(ctx, a.Host, &a.Host.listings, func(ctx context.Context) (map[string]FileMark, error) {
			return a.Host.Config.DirectoryMarks(ctx, dir)
		})
		if ctx.Err() == nil {
			err = nil // A directory that can't be listed isn't listed again for each VM.
		}

		return marks, err
	})
	if err != nil {
		return nil
	}

	return marks
}

// lacksVolume reports whether no storage pool of the host is known to list the file.
func (a Reply) lacksVolume(ctx context.Context, file string) bool {
	if a.Host.lookups.pausing() {
		return true
	}

	ctx, cancel := context.WithTimeout(ctx, filesTimeout)
	defer cancel()

	pools, err := a.View.StoragePools(ctx, a.Host)
	if err != nil {
		return false
	}

	dir := path.Dir(path.Clean(file))

	i := slices.IndexFunc(pools, func(p libvirt.StoragePool) bool { return p.Active && path.Clean(p.TargetPath()) == dir })
	if i < 0 {
		return true
	}

	names, err := a.View.volumeNames.get(ctx, pools[i].Name, func(ctx context.Context) ([]string, error) {
		return a.Host.Conn.VolumeNames(ctx, pools[i].Name)
	})

	return err == nil && !slices.Contains(names, path.Base(file))
}
