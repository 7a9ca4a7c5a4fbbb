package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// ErrUnmounted says that the filesystem of a pool isn't mounted: its volumes can't be seen, and new ones would be on
// another filesystem. It is libvirt.ErrPoolInactive too: the volumes of such a pool are neither there nor gone.
// ErrMountsUnread is ErrUnmounted too: the host couldn't say just now whether the filesystem is mounted. So is
// ErrMountGone: only what was seen earlier says that there is one.
var (
	ErrUnmounted    error = mountError{"the filesystem isn't mounted", libvirt.ErrPoolInactive}
	ErrMountsUnread error = mountError{"it is unknown whether the filesystem is mounted", ErrUnmounted}
	ErrMountGone    error = mountError{"the filesystem isn't mounted any more", ErrUnmounted}
)

// mountError says what is wrong, and also is an error of a more general kind.
type mountError struct {
	text string
	kind error
}

func (e mountError) Error() string { return e.text }

func (e mountError) Unwrap() error { return e.kind }

// CheckMounted returns ErrUnmounted if a pool of files lacks its filesystem: one that libvirt mounts when it starts the
// pool, or else one of CheckMountedAt. It returns nil if that can't be known, for example on a host without SSH. It
// changes nothing.
func CheckMounted(ctx context.Context, h hostset.Host, pool *libvirt.StoragePool) error {
	p, err := ReadPool(cmp.Or(pool.LiveXML, pool.XML))
	if err != nil {
		return err
	}
	return checkMounted(ctx, h, p, pool.Active)
}

// ReadingMounts returns the hosts with tables of mounts that are being read from now on, together with what the caller
// asks next: whoever needs them later waits only for the rest. The reading ends with ctx. What was mounted before
// something was found missing doesn't say that it is gone, so those tables are no answer to that.
func ReadingMounts(ctx context.Context, hosts hostset.Set) hostset.Set {
	type tables struct{ planned, mounted string }
	hosts = slices.Clone(hosts)
	for i, h := range hosts {
		if h.Fenced || h.MountTables == nil {
			continue
		}
		read := sync.OnceValues(func() (t tables, err error) {
			t.planned, t.mounted, err = h.MountTables(ctx)
			return t, err
		})
		go func() { _, _ = read() }()
		hosts[i].MountTables = func(context.Context) (planned, mounted string, err error) {
			t, err := read()
			return t.planned, t.mounted, err
		}
	}
	return hosts
}

// UnmountedPools returns ErrUnmounted for the hosts whose active pool lacks its filesystem. It changes nothing.
func UnmountedPools(ctx context.Context, hosts hostset.Set, found []hostset.Answer[HostPool]) map[string]error {
	pools := map[string]*HostPool{}
	for _, a := range found {
		pools[a.Host] = a.Value
	}
	return hostset.Each(ctx, hosts, func(ctx context.Context, h hostset.Host) error {
		p := pools[h.Name]
		if p == nil || !p.Active {
			return nil
		}
		err := checkMounted(ctx, h, &p.Live, true)
		if errors.Is(err, ErrMountsUnread) {
			return nil
		}
		return err
	})
}

func checkMounted(ctx context.Context, h hostset.Host, p *Pool, active bool) error {
	if p.Directory() == "" {
		return nil
	}
	dir := path.Clean(p.Directory())
	at, err := firstUnmounted(ctx, h, dir, func(planned, _ string) []string {
		switch {
		case !p.kind().mounts:
			return pointsAbove(planned, dir)
		case active:
			return []string{dir}
		default:
			return nil
		}
	})
	if err != nil || at == "" {
		return err
	}
	return fmt.Errorf("%w: nothing is mounted at %s on host %q, where storage pool %q has its volumes. Mount it and run "+
		"\"virsh pool-refresh %[4]s\" on that host", ErrUnmounted, at, h.Name, p.Name)
}

// CheckMountedAt returns ErrUnmounted if the host's /etc/fstab has a filesystem at a directory or above it that isn't
// mounted. It returns nil if that can't be known. It changes nothing.
func CheckMountedAt(ctx context.Context, h hostset.Host, dir string) error {
	dir = path.Clean(dir)
	at, err := firstUnmounted(ctx, h, dir, func(planned, _ string) []string { return pointsAbove(planned, dir) })
	if err != nil || at == "" {
		return err
	}
	return fmt.Errorf("%w: /etc/fstab has %s, where nothing is mounted", ErrUnmounted, at)
}

// firstUnmounted returns the first of the wanted mount points, at a directory or above it, that a host lacks; "" for
// none, or if that can't be known. One with another filesystem between it and the directory isn't needed. wanted gets
// the host's /etc/fstab and its table of mounts. The error is ErrMountsUnread.
func firstUnmounted(
	ctx context.Context, h hostset.Host, dir string, wanted func(planned, mounted string) []string,
) (string, error) {
	if h.MountTables == nil {
		return "", nil
	}
	planned, mounted, err := h.MountTables(ctx)
	if err != nil {
		return "", mountsUnread(h, err)
	}
	points := mountPoints(mounted)
	if !slices.Contains(points, "/") {
		return "", nil // It isn't the host's table.
	}
	for _, at := range wanted(planned, mounted) {
		covered := func(point string) bool { return point != at && isWithin(point, at) && isWithin(dir, point) }
		if slices.ContainsFunc(points, covered) {
			continue
		}
		is, err := isMounted(ctx, h, at, points)
		if err != nil {
			return "", mountsUnread(h, err)
		}
		if !is {
			return at, nil
		}
	}
	return "", nil
}

// mountsUnread returns ErrMountsUnread. It hides the kind of its cause: the host's libvirt did answer.
func mountsUnread(h hostset.Host, cause error) error {
	return fmt.Errorf("%w: the mounts of host %q can't be read: %s. Try again. If that fails too, find out on that host "+
		"why the user who logs in can't run \"tail /proc/self/mounts\"", ErrMountsUnread, h.Name, cause.Error())
}

// isWithin reports whether a directory is another one, or below it.
func isWithin(dir, above string) bool { return dir == above || strings.HasPrefix(dir, above+"/") }

// isMounted reports whether a directory is one of the mount points, perhaps under another name, through a symbolic
// link. It returns true if that can't be known.
func isMounted(ctx context.Context, h hostset.Host, at string, points []string) (bool, error) {
	if slices.Contains(points, at) || h.SameFile == nil {
		return true, nil
	}
	// The table has no links. So if the host's user sees the directory, that user also sees where it is mounted: mount
	// points that only others see don't matter.
	same, err := h.SameFile(ctx, at, append(slices.Clone(points), at)...)
	switch {
	case slices.ContainsFunc(same, func(point string) bool { return point != at }):
		return true, nil
	case errors.Is(err, libvirt.ErrUnsupported):
		return !slices.Contains(same, at), nil
	default:
		return false, err
	}
}

// mountPoints returns the directories in a table of mounts.
func mountPoints(table string) (points []string) {
	for line := range strings.Lines(table) {
		if at, _, _ := mountOf(line); at != "" {
			points = append(points, at)
		}
	}
	return points
}

// pointsAbove returns the mount points of an fstab(5) at a directory or above it. Those that nothing mounts by itself
// are left out: whether they should be mounted is unknown. So is /, which always is.
func pointsAbove(table, dir string) (points []string) {
	for line := range strings.Lines(table) {
		at, _, options := mountOf(line)
		byHand := slices.Contains(options, "noauto") && !slices.Contains(options, "x-systemd.automount")
		if at != "" && at != "/" && !byHand && isWithin(dir, at) {
			points = append(points, at)
		}
	}
	return points
}

// mountOf reads a line of fstab(5): a directory, and what kind of filesystem is mounted there. at is "" if the line
// names no directory.
func mountOf(line string) (at, kind string, options []string) {
	fields := strings.Fields(line)
	if len(fields) < 4 || strings.HasPrefix(fields[0], "#") || !strings.HasPrefix(fields[1], "/") {
		return "", "", nil
	}
	return path.Clean(unescapeMount(fields[1])), fields[2], strings.Split(fields[3], ",")
}

// unescapeMount replaces the escapes of fstab(5), such as \040 for a space.
func unescapeMount(s string) string {
	var text strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if c, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				text.WriteByte(byte(c))
				i += 3
				continue
			}
		}
		text.WriteByte(s[i])
	}
	return text.String()
}

// checkMounted is CheckMounted for the pool of a host by its name. It returns libvirt.ErrNoPool if there is none.
func (s *Storage) checkMounted(ctx context.Context, h *libvirt.Host, pool string) error {
	on, ok := s.Hosts.Host(h.Name())
	if !ok {
		return nil
	}
	is, err := h.StoragePool(ctx, pool)
	if errors.Is(err, libvirt.ErrNotFound) {
		return libvirt.ErrNoPool
	}
	if err != nil {
		return err
	}
	return CheckMounted(ctx, on, is)
}

// poolVolume reads a volume of a host's pool. Its errors are those of libvirt.Host.PoolVolume, and ErrUnmounted if the
// pool doesn't list the volume because its filesystem isn't mounted. If it can't find that out, the error is not
// libvirt.ErrNotFound.
func (s *Storage) poolVolume(ctx context.Context, h *libvirt.Host, ref Ref) (*libvirt.Volume, error) {
	v, err := h.PoolVolume(ctx, ref.Pool, ref.Name)
	if !errors.Is(err, libvirt.ErrNotFound) || errors.Is(err, libvirt.ErrNoPool) {
		return v, err
	}
	if unmounted := s.checkMounted(ctx, h, ref.Pool); unmounted != nil {
		return nil, unmounted
	}
	return nil, err
}
