package libvirt

import (
	"context"
	"errors"
	"path"
)

// DirectoryIfThere is Directory for one that may not exist: if its parent doesn't list it, it is empty, has the
// parent's room, and isn't there.
func (h *Host) DirectoryIfThere(ctx context.Context, dir string, names ...string) (*Directory, bool, error) {
	d, err := h.Directory(ctx, dir, names...)
	if err == nil {
		return d, true, nil
	}
	if ctx.Err() != nil || errors.Is(err, ErrUnreachable) || dir == "/" {
		return nil, false, err
	}
	above, _, aboveErr := h.DirectoryIfThere(ctx, path.Dir(dir), path.Base(dir))
	if aboveErr != nil {
		return nil, false, err
	}
	if _, there := above.Files[path.Base(dir)]; there {
		return nil, false, err
	}
	return &Directory{Available: above.Available}, false, nil
}

// FileIfThere returns the file that the host has at a path, nil for none.
func (h *Host) FileIfThere(ctx context.Context, at string) (*Volume, error) {
	d, _, err := h.DirectoryIfThere(ctx, path.Dir(at), path.Base(at))
	if err != nil {
		return nil, err
	}
	if file, ok := d.Files[path.Base(at)]; ok {
		return &file, nil
	}
	return nil, nil
}

// HasFiles reports whether the host has files. libvirt's test driver, which runs within our own process, has none.
func (h *Host) HasFiles() bool { return !h.target.inProcess }
