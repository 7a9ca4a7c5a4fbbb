package inventory

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// FileMark is what tells the file at a path of one host from that of another, without reading either.
type FileMark struct {
	Bytes, Allocated uint64
	// Inode is 0, and Filesystem "", if they aren't known. Filesystem is the number of its kind, in hexadecimal.
	Inode      uint64
	Filesystem string
	// Modified is the time of the last change of the content, Changed that of the content or of what the file is; both in
	// seconds with nanoseconds. No program can set Changed.
	Modified, Changed string
}

// sharedFilesystems are the kinds of filesystems on which a file has one inode for all hosts, as statfs numbers them:
// NFS, GFS2, OCFS2, AFS, SMB, CIFS, SMB 2, CephFS, GPFS, Lustre, ACFS, BeeGFS.
var sharedFilesystems = []string{
	"6969", "1161970", "7461636f", "5346414f", "517b", "ff534d42", "fe534d42", "c36400", "47504653", "bd00bd0", "61636673",
	"19830326",
}

// fuse is the kind of filesystems that a program provides. Some number their files as they meet them. GlusterFS has one
// number of 64 bits for all hosts.
const fuse = "65735546"

// SameFile reports whether the marks of one path on two hosts are of one file, on storage that both hosts use. A host
// may know the times of such a file as they were some seconds ago.
func (m FileMark) SameFile(other FileMark) bool {
	if m.Inode != other.Inode && m.Inode != 0 && other.Inode != 0 {
		return false
	}

	if m.Changed != "" && m.Changed == other.Changed && m.Bytes == other.Bytes {
		return true
	}

	numbered := slices.Contains(sharedFilesystems, m.Filesystem) || m.Filesystem == fuse && m.Inode > math.MaxUint32

	return m.Inode != 0 && m.Inode == other.Inode && m.Filesystem == other.Filesystem && numbered
}

// Alike reports whether two files have the same size and were written at the same time: one is a copy of the other, and
// no guest has written to either since. Some programs copy only the seconds of the time.
func (m FileMark) Alike(other FileMark) bool {
	at, rest := m.modified()
	otherAt, otherRest := other.modified()
	precise := rest != 0 && otherRest != 0

	return m.Bytes == other.Bytes && at != 0 && at == otherAt && (!precise || rest == otherRest)
}

// modified returns the time of the last change of the content, in seconds and nanoseconds; 0 if it isn't known.
func (m FileMark) modified() (seconds, nanoseconds int64) {
	whole, part, _ := strings.Cut(m.Modified, ".")

	seconds, err := strconv.ParseInt(whole, 10, 64)
	if err != nil {
		return 0, 0
	}

	nanoseconds, err = strconv.ParseInt((part + "000000000")[:9], 10, 64)
	if err != nil {
		return seconds, 0
	}

	return seconds, nanoseconds
}

// String describes the file for users.
func (m FileMark) String() string {
	when := "at an unknown time"
	if seconds, nanoseconds := m.modified(); seconds != 0 {
		when = time.Unix(seconds, nanoseconds).UTC().Format("2006-01-02 15:04:05.000 UTC")
	}

	return fmt.Sprintf("%s, of which %s are occupied, last written %s", domain.FormatSize(m.Bytes),
		domain.FormatSize(m.Allocated), when)
}

// FileMarks returns the marks of files of the host, as they are now. A file that isn't there, or that neither the user
// who logs in nor a storage pool shows, isn't in the result.
func (inv *Inventory) FileMarks(ctx context.Context, h *Host, paths []string) map[string]FileMark {
	marks := inv.seenMarks(ctx, h, paths)
	inv.addVolumeMarks(ctx, h, without(paths, marks), marks)

	return marks
}

// addVolumeMarks adds the marks of files that the host's storage pools show.
func (inv *Inventory) addVolumeMarks(ctx context.Context, h *Host, paths []string, marks map[string]FileMark) {
	if len(paths) == 0 || h.lookups.pausing() {
		return
	}

	limited, cancel := context.WithTimeout(ctx, filesTimeout)
	defer cancel()

	for _, p := range paths {
		if v, err := h.Conn.VolumeByPath(limited, p); err == nil && v.Type == "file" {
			marks[p] = markOf(v)
		}
	}

	if limited.Err() != nil && ctx.Err() == nil {
		h.lookups.pause()
	}
}

// without returns the paths that have no mark.
func without(paths []string, marks map[string]FileMark) []string {
	return slices.DeleteFunc(slices.Clone(paths), func(p string) bool {
		_, has := marks[p]

		return has
	})
}

// seenMarks returns the marks that the user who logs in sees.
func (inv *Inventory) seenMarks(ctx context.Context, h *Host, paths []string) map[string]FileMark {
	if h.Config.FileMarks == nil || len(paths) == 0 {
		return map[string]FileMark{}
	}

	marks, err := inv.askForMarks(ctx, h, &h.files.timeouts, func(ctx context.Context) (map[string]FileMark, error) {
		return h.Config.FileMarks(ctx, paths...)
	})
	if err != nil || marks == nil {
		return map[string]FileMark{}
	}

	return marks
}

// askForMarks runs a program on the host that looks at files. The marks are nil if the host didn't answer a short time
// ago. late records that this program is late.
func (inv *Inventory) askForMarks(
	ctx context.Context, h *Host, late *timeouts, ask func(context.Context) (map[string]FileMark, error),
) (map[string]FileMark, error) {
	// An SSH server limits how many programs run over one connection at a time.
	unlock, err := inv.reading.Lock(ctx, h.Name)
	if err != nil {
		return nil, err
	}
	defer unlock()

	if h.files.pausing() || late.pausing() {
		return nil, nil
	}

	ctx, cancel := context.WithTimeout(ctx, filesTimeout)
	defer cancel()

	marks, err := ask(ctx)
	if err == nil {
		return marks, nil
	}

	inv.log.DebugContext(ctx, "files can't be compared", "host", h.Name, "error", err)

	if ctx.Err() != nil {
		late.pause()
	}

	return nil, err
}

func markOf(v *libvirt.Volume) FileMark {
	return FileMark{
		Bytes: cmp.Or(v.PhysicalBytes, v.CapacityBytes), Allocated: v.AllocationBytes, Modified: v.Modified,
		Changed: v.Changed,
	}
}
