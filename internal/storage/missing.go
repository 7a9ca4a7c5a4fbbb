package storage

import (
	"context"
	"slices"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// HasFile reports whether the file at the path is known to exist on a host. It returns false if the host can't be
// asked. It changes nothing.
func (s *Storage) HasFile(ctx context.Context, host, file string) bool {
	h, ok := s.Hosts.Host(host)
	if !ok || h.Fenced || h.SameFile == nil || !askable(file) {
		return false
	}
	same, err := h.SameFile(ctx, file, file) // Only a file that exists is the same as itself.
	if err != nil {
		s.Log.Debug("a file was not looked for", "host", host, "file", file, "error", err)
	}
	return len(same) > 0
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
	return slices.ContainsFunc(hostset.Found(s.Pool(ctx, hosts, pool)), func(a hostset.Answer[HostPool]) bool {
		return a.Value.Shared
	})
}

// UserOfCopy returns the VM that uses a volume of the same name and path on one of the other hosts, while nothing uses
// the one on host: so it is after a VM was moved with its disks and the source's files were kept. It returns nil if
// there is no such VM, if the hosts share the pool, and if the other hosts don't answer. It changes nothing.
func (s *Storage) UserOfCopy(ctx context.Context, host string, others hostset.Set, ref Ref) (*User, error) {
	here := hostset.Found(s.Volume(ctx, s.Hosts.Named(host), ref))
	if len(here) == 0 || s.IsShared(ctx, s.Hosts.Named(host), ref.Pool) {
		return nil, nil
	}
	for _, a := range hostset.Found(s.Volume(ctx, others, ref)) {
		if a.Value.Path != here[0].Value.Path {
			continue // A move copies a file to the same path.
		}
		users, err := s.KnownUsers(ctx, others.Named(a.Host), *a.Value)
		if err != nil {
			s.Log.Debug("users of a volume are unknown", "host", a.Host, "storage_pool", ref.Pool, "volume", ref.Name,
				"error", err)
			continue
		}
		i := slices.IndexFunc(users, func(u User) bool { return u.VM != "" })
		if i < 0 {
			continue
		}
		own, err := s.KnownUsers(ctx, s.Hosts.Named(host), *here[0].Value)
		if err != nil || len(own) > 0 {
			return nil, err
		}
		return &users[i], nil
	}
	return nil, nil
}
