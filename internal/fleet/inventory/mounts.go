package inventory

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
)

// The files that say which filesystems a host is to mount and which it has mounted, and the size up to which they are
// read.
const (
	plannedMounts  = "/etc/fstab"
	presentMounts  = "/proc/self/mounts"
	mountTableSize = 4 << 20
)

// mountsAge is how long these files are cached: they are read once for the disks of many VMs.
const mountsAge = time.Second

// mountTables are the cached files of a host.
type mountTables struct {
	sync.Mutex

	at               time.Time
	planned, mounted string
}

// MountTables returns the host's /etc/fstab and its table of mounts, as they were a second ago at most; "" for one that
// the host never shows: its files can't be read, or there is none. An error means that it shows them another time.
func (h *Host) MountTables(ctx context.Context) (planned, mounted string, err error) {
	if h.Config.ReadEnd == nil {
		return "", "", nil
	}

	h.mounts.Lock()
	defer h.mounts.Unlock()

	was := &h.mounts
	if time.Since(was.at) < mountsAge {
		return was.planned, was.mounted, nil
	}

	if planned, err = h.mountTable(ctx, plannedMounts, was.planned != ""); err != nil {
		return "", "", err
	}

	// Whoever sees the host's fstab sees its mounts, too.
	if mounted, err = h.mountTable(ctx, presentMounts, was.mounted != "" || planned != ""); err != nil {
		return "", "", err
	}

	was.at, was.planned, was.mounted = time.Now(), planned, mounted

	return planned, mounted, nil
}

// mountTable reads one of the files. It returns "" for one that the host doesn't show, unless it is known to.
func (h *Host) mountTable(ctx context.Context, file string, shown bool) (string, error) {
	text, err := h.Config.ReadEnd(ctx, file, mountTableSize)

	switch {
	case errors.Is(err, ErrUnsupported) && !shown:
		return "", nil
	case err != nil:
		return "", err
	case len(text) == mountTableSize: // Its beginning may be missing.
		return "", fmt.Errorf("%s has %d MiB or more", file, mountTableSize>>20)
	}

	return string(text), nil
}

// Files returns the host with what is needed to look at its files and mounts.
func (h *Host) Files() hostset.Host {
	return hostset.Host{
		Name: h.Name, Conn: h.Conn, SameFile: h.Config.SameFile, ReadEnd: h.Config.ReadEnd, MountTables: h.MountTables,
		SHA256: h.Config.SHA256, FileID: h.Config.FileID,
	}
}
