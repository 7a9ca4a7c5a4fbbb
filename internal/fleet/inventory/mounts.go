package inventory

import (
	"context"
	"sync"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
)

// The files that say which filesystems a host is to mount and which it has mounted, and the size up to which they are
// read.
const (
	plannedMounts  = "/etc/fstab"
	presentMounts  = "/proc/self/mounts"
	mountTableSize = 256 << 10
)

// mountsAge is how long these files are cached: they are read once for the disks of many VMs.
const mountsAge = time.Second

// mountTables are the cached files of a host.
type mountTables struct {
	sync.Mutex

	at               time.Time
	planned, mounted string
}

// MountTables returns the host's /etc/fstab and its table of mounts, as they were a second ago at most; "" for one
// that can't be read.
func (h *Host) MountTables(ctx context.Context) (planned, mounted string) {
	if h.Config.ReadEnd == nil {
		return "", ""
	}

	h.mounts.Lock()
	defer h.mounts.Unlock()

	if time.Since(h.mounts.at) < mountsAge {
		return h.mounts.planned, h.mounts.mounted
	}

	read := func(file string) string {
		text, err := h.Config.ReadEnd(ctx, file, mountTableSize)
		if err != nil || len(text) == mountTableSize { // Its beginning may be missing.
			return ""
		}

		return string(text)
	}

	planned, mounted = read(plannedMounts), read(presentMounts)
	if ctx.Err() == nil {
		h.mounts.at, h.mounts.planned, h.mounts.mounted = time.Now(), planned, mounted
	}

	return planned, mounted
}

// Files returns the host with what is needed to look at its files and mounts.
func (h *Host) Files() hostset.Host {
	return hostset.Host{
		Name: h.Name, Conn: h.Conn, SameFile: h.Config.SameFile, ReadEnd: h.Config.ReadEnd, MountTables: h.MountTables,
		SHA256: h.Config.SHA256,
	}
}
