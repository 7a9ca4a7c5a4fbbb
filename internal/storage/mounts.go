package storage

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path"
	"strings"
	"sync"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
)

// Mounts are the mount points, by host, that had a directory when it was seen last with what belongs there. A host is
// missing if the directory was on its root filesystem, or if that is unknown. A mount that neither libvirt nor
// /etc/fstab knows, such as one that was made by hand, is known from here alone.
type Mounts map[string]string

// Review returns the mount points, with those of the files that hosts have now. A host whose file is "" lacks it: gone
// says on which of them it may be there all the same, because the mount point that the host had for the pool's
// directory is without a filesystem. That is ErrMountGone. Review changes nothing.
func (m Mounts) Review(
	ctx context.Context, hosts hostset.Set, pool string, files map[string]string,
) (now Mounts, gone map[string]error) {
	now = Mounts{}
	maps.Copy(now, m)
	var mu sync.Mutex
	gone = hostset.Each(ctx, hosts, func(ctx context.Context, h hostset.Host) error {
		file, asked := files[h.Name]
		switch {
		case !asked:
		case file == "":
			return m.check(ctx, h, pool)
		default:
			if at, known := mountPointOf(ctx, h, file); known {
				mu.Lock()
				defer mu.Unlock()
				now[h.Name] = at
			}
		}
		return nil
	})
	maps.DeleteFunc(now, func(_, at string) bool { return at == "" })
	return now, gone
}

// check returns ErrMountGone if a host has nothing at its mount point of the pool's directory. It returns nil if the
// pool has another directory by now, if autofs mounts it at its next use, and if that can't be known.
func (m Mounts) check(ctx context.Context, h hostset.Host, pool string) error {
	last := m[h.Name]
	if last == "" {
		return nil
	}
	is, err := h.Conn.StoragePool(ctx, pool)
	if err != nil {
		return nil //nolint:nilerr // Whoever asks for the volume gets this error.
	}
	p, err := ReadPool(cmp.Or(is.LiveXML, is.XML))
	if err != nil {
		return err
	}
	dir := path.Clean(p.Directory())
	if !isWithin(dir, last) {
		return nil
	}
	at, err := firstUnmounted(ctx, h, dir, func(_, mounted string) []string {
		if isAutomounted(mounted, last) {
			return nil
		}
		return []string{last}
	})
	if err != nil || at == "" {
		return err
	}
	return fmt.Errorf("%w: nothing is mounted at %s on host %q, where storage pool %q had its volumes. Mount it and run "+
		"\"virsh pool-refresh %[4]s\" on that host", ErrMountGone, at, h.Name, pool)
}

// isAutomounted reports whether autofs is what a table of mounts has at a directory, or else next above it. autofs
// unmounts what nothing has used for some minutes, and mounts it again when someone looks for it.
func isAutomounted(table, dir string) bool {
	var at, kind string
	for line := range strings.Lines(table) {
		point, is, _ := mountOf(line)
		if point != "" && isWithin(dir, point) && len(point) >= len(at) { // What was mounted later covers the others.
			at, kind = point, is
		}
	}
	return kind == "autofs"
}

// mountPointOf returns the mount point that has a file of a host; "" for the root filesystem.
func mountPointOf(ctx context.Context, h hostset.Host, file string) (at string, known bool) {
	if h.MountTables == nil || !path.IsAbs(file) || isWithin(file, "/dev") {
		return "", false
	}
	_, mounted, err := h.MountTables(ctx)
	if err != nil || mounted == "" {
		return "", false
	}
	for _, point := range mountPoints(mounted) {
		if point != "/" && isWithin(path.Dir(file), point) && len(point) > len(at) {
			at = point
		}
	}
	return at, true
}
