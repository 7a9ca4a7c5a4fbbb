package inventory

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
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

// mountTables are these files of a host.
type mountTables struct {
	at               time.Time
	planned, mounted string
}

// shownMounts says which of these files a host has shown.
type shownMounts struct{ planned, mounted atomic.Bool }

// MountTables returns the host's /etc/fstab and its table of mounts, as they were a second ago at most; "" for one that
// the host never shows: its files can't be read, or there is none. An error means that it shows them another time.
func (h *Host) MountTables(ctx context.Context) (planned, mounted string, err error) {
	if h.Config.ReadEnd == nil {
		return "", "", nil
	}

	current := func(m mountTables) bool { return time.Since(m.at) < mountsAge }

	m, err := h.mounts.getIf(ctx, "", current, h.readMounts)

	return m.planned, m.mounted, err
}

// readMounts reads both files, at the same time.
func (h *Host) readMounts(ctx context.Context) (m mountTables, err error) {
	var (
		reading    sync.WaitGroup
		mountedErr error
	)

	reading.Go(func() { m.mounted, mountedErr = h.mountTable(ctx, presentMounts) })

	m.planned, err = h.mountTable(ctx, plannedMounts)

	reading.Wait()

	if err = hidden(err, h.mountsShown.planned.Load()); err != nil {
		return mountTables{}, err
	}

	// Whoever sees the host's fstab sees its mounts, too.
	if err = hidden(mountedErr, h.mountsShown.mounted.Load() || m.planned != ""); err != nil {
		return mountTables{}, err
	}

	h.mountsShown.planned.Store(m.planned != "")
	h.mountsShown.mounted.Store(m.mounted != "")
	m.at = time.Now()

	return m, nil
}

// hidden returns the error of a reading of one of the files, nil if the host never shows the file.
func hidden(err error, shown bool) error {
	if errors.Is(err, ErrUnsupported) && !shown {
		return nil
	}

	return err
}

// mountTable reads one of the files.
func (h *Host) mountTable(ctx context.Context, file string) (string, error) {
	text, err := h.Config.ReadEnd(ctx, file, mountTableSize)
	if err != nil {
		return "", err
	}

	if len(text) == mountTableSize { // Its beginning may be missing.
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
