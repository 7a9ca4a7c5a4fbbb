package storage

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// HasFile reports whether the file at the path is known to exist on a host. It returns false if the host can't be
// asked. It changes nothing.
func (s *Storage) HasFile(ctx context.Context, host, file string) bool {
	there, _ := s.lookFor(ctx, host, file)
	return there
}

// lookFor reports whether a file exists on a host. known is false if the host can't be asked.
func (s *Storage) lookFor(ctx context.Context, host, file string) (there, known bool) {
	h, ok := s.Hosts.Host(host)
	if !ok || h.Fenced || h.SameFile == nil || !askable(file) {
		return false, false
	}
	same, err := h.SameFile(ctx, file, file) // Only a file that exists is the same as itself.
	if err != nil {
		s.Log.Debug("a file was not looked for", "host", host, "file", file, "error", err)
	}
	return len(same) > 0, err == nil
}

// isAbsent reports whether a host is known not to have the file: the host was asked, and has mounted every filesystem
// that its /etc/fstab has at the file's directory or above it, also those that are mounted by hand.
func (s *Storage) isAbsent(ctx context.Context, host, file string) bool {
	h, ok := s.Hosts.Host(host)
	if !ok || h.Fenced || h.MountTables == nil || !askable(file) {
		return false
	}
	planned, mounted, err := h.MountTables(ctx)
	points := mountPoints(mounted)
	if err != nil || planned == "" || !slices.Contains(points, "/") {
		return false // It isn't known what should be mounted.
	}
	for _, at := range mountPoints(planned) {
		if isWithin(path.Dir(file), at) && !slices.Contains(points, at) {
			return false
		}
	}
	there, known := s.lookFor(ctx, host, file)
	return known && !there
}

// DirectoryWith returns what identifies the directory of a file on a host, as long as its filesystem is mounted; "" if
// that is unknown or the file isn't there. It changes nothing.
func (s *Storage) DirectoryWith(ctx context.Context, host, file string) string {
	id := s.directoryID(ctx, host, file)
	if id == "" || !s.HasFile(ctx, host, file) || s.directoryID(ctx, host, file) != id {
		return "" // The last question is for a filesystem that was mounted meanwhile.
	}
	return id
}

func (s *Storage) directoryID(ctx context.Context, host, file string) string {
	h, ok := s.Hosts.Host(host)
	if !ok || h.Fenced || h.FileID == nil || !askable(file) {
		return ""
	}
	id, err := h.FileID(ctx, path.Dir(file))
	if err != nil {
		s.Log.Debug("a directory was not identified", "host", host, "file", file, "error", err)
		return ""
	}
	return id
}

// hasLeft reports whether a volume is known to be gone: its directory is the one in which it was seen, and lacks it.
func (s *Storage) hasLeft(ctx context.Context, r Release) bool {
	isThere := func() bool { return r.SeenIn != "" && s.directoryID(ctx, r.Host, r.Path) == r.SeenIn }
	if !isThere() {
		return false
	}
	there, known := s.lookFor(ctx, r.Host, r.Path)
	return known && !there && isThere() // The directory may have been unmounted meanwhile.
}

// MountFirst says what to do first about a volume that its pool doesn't list, because the pool's filesystem isn't
// mounted. The caller continues the sentence.
func MountFirst(pool string) string {
	return fmt.Sprintf("If the pool's filesystem isn't mounted, mount it, run \"virsh pool-refresh %s\" on the host", pool)
}

// UsersOfMissing returns the users of a volume that its active pool on a host doesn't list: on all hosts if one of them
// says that the pool is shared, otherwise on that host. Such a volume may be on a filesystem that isn't mounted. It
// changes nothing.
func (s *Storage) UsersOfMissing(ctx context.Context, host string, v libvirt.Volume) ([]User, error) {
	hosts := s.Hosts.Named(host)
	if s.IsShared(ctx, s.Hosts, v.Pool) {
		hosts = s.Hosts
	}
	return s.KnownUsers(ctx, hosts, v)
}

// IsShared reports whether one of the hosts answers that all hosts have the pool's volumes.
func (s *Storage) IsShared(ctx context.Context, hosts hostset.Set, pool string) bool {
	return slices.ContainsFunc(hostset.Found(PoolOn(ctx, hosts, pool)), func(a hostset.Answer[HostPool]) bool {
		return a.Value.Shared
	})
}

// Sharing returns the other hosts that answer that they share the pool of a host, which has to answer itself.
func (s *Storage) Sharing(ctx context.Context, host, pool string) (hostset.Set, error) {
	here := PoolOn(ctx, s.Hosts.Named(host), pool)
	if found := hostset.Found(here); len(found) == 0 || !found[0].Value.Shared {
		return nil, hostset.Silent(here)[host]
	}
	var names []string
	for _, a := range hostset.Found(PoolOn(ctx, s.Hosts.Without(host), pool)) {
		if a.Value.Shared {
			names = append(names, a.Host)
		}
	}
	return s.Hosts.Named(names...), nil
}

// UserOfCopy returns the VM that uses a volume of the same name and path on one of the other hosts, while nothing uses
// the one on host. This is the case after a VM was moved with its disks and the source's files were kept. It returns
// nil if there is no such VM, if the hosts share the pool, and if the other hosts don't answer. It lists the volumes of
// the others as of the last reading of these hosts, and changes nothing.
func (s *Storage) UserOfCopy(ctx context.Context, host string, others hostset.Set, ref Ref) (*User, error) {
	here := hostset.Found(s.Volume(ctx, s.Hosts.Named(host), ref))
	if len(here) == 0 || s.IsShared(ctx, s.Hosts.Named(host), ref.Pool) {
		return nil, nil
	}
	copies := hostset.Found(s.SeenVolume(ctx, others, ref))
	copies = slices.DeleteFunc(copies, func(a hostset.Answer[libvirt.Volume]) bool {
		return a.Value.Path != here[0].Value.Path // A move copies a file to the same path.
	})
	if len(copies) == 0 {
		return nil, nil
	}
	own, ownErr := s.KnownUsers(ctx, s.Hosts.Named(host), *here[0].Value)
	if len(own) > 0 {
		return nil, nil
	}
	for _, a := range copies {
		users, err := s.KnownUsers(ctx, others.Named(a.Host), *a.Value)
		if errors.Is(err, libvirt.ErrUnreachable) {
			s.Log.Debug("users of a volume are unknown", "host", a.Host, "storage_pool", ref.Pool, "volume", ref.Name,
				"error", err)
			continue
		}
		if err != nil { // The host has such a volume, and can't say just now whether it is the one that is used.
			return nil, err
		}
		i := slices.IndexFunc(users, func(u User) bool { return u.VM != "" })
		switch {
		case i < 0:
		case ownErr != nil:
			return nil, ownErr
		default:
			return &users[i], nil
		}
	}
	return nil, nil
}

// SeenVolume is Volume for plans: it uses what is known of the pool's volumes from the last reading of the hosts.
func (s *Storage) SeenVolume(ctx context.Context, hosts hostset.Set, ref Ref) []hostset.Answer[libvirt.Volume] {
	return hostset.Ask(ctx, hosts, func(ctx context.Context, conn *libvirt.Host) (*libvirt.Volume, error) {
		h, _ := hosts.Host(conn.Name())
		volumes, err := seenVolumes(h)(ctx, ref.Pool)
		if err != nil { // Another volume may be the cause, such as one that is being made.
			return conn.PoolVolume(ctx, ref.Pool, ref.Name)
		}
		for _, v := range volumes {
			if v.Name == ref.Name {
				v.Pool = ref.Pool
				return &v, nil
			}
		}
		return nil, nil
	})
}
