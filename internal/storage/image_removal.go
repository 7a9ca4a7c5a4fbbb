package storage

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// CheckCopies returns why RemoveCopies would leave an image's copy on hosts: of hosts that have one copy together, the
// first has the error. It removes nothing.
func (s *Storage) CheckCopies(
	ctx context.Context, hosts, staying hostset.Set, ref Ref,
) (failed map[string]error) {
	sharing, failed := s.eachCopy(ctx, hosts, ref, s.checkCopy)
	known := slices.Clone(staying)
	for _, h := range sharing {
		if slices.ContainsFunc(known, func(other hostset.Host) bool {
			return s.SamePool(ctx, ref.Pool, h.Name, other.Name)
		}) {
			continue
		}
		known = append(known, h)
		if err := s.checkCopy(ctx, s.Hosts.Present(), h.Name, ref); err != nil {
			failed[h.Name] = err
		}
	}
	return failed
}

// RemoveCopies removes an image's copy from hosts, except where it is in use. Hosts that share the pool have one copy
// together: it stays if one of staying has it. A host without the pool has no copy.
func (s *Storage) RemoveCopies(
	ctx context.Context, hosts, staying hostset.Set, ref Ref,
) (failed map[string]error) {
	sharing, failed := s.eachCopy(ctx, hosts, ref, s.removeCopy)
	maps.Copy(failed, s.removeShared(ctx, sharing, staying, ref))
	return failed
}

// eachCopy calls do for the hosts that have the pool alone, all at the same time, and returns the others.
func (s *Storage) eachCopy(
	ctx context.Context, hosts hostset.Set, ref Ref,
	do func(ctx context.Context, users hostset.Set, host string, ref Ref) error,
) (sharing hostset.Set, failed map[string]error) {
	var mu sync.Mutex
	failed = hostset.Each(ctx, hosts, func(ctx context.Context, h hostset.Host) error {
		users, err := s.UserHosts(ctx, h.Name, ref.Pool)
		if err != nil {
			return err
		}
		if len(users) > 1 {
			mu.Lock()
			defer mu.Unlock()
			sharing = append(sharing, h)
			return nil
		}
		return do(ctx, users, h.Name, ref)
	})
	return hostset.NewSet(sharing...), failed
}

// removeShared removes an image's copies from hosts whose pools are shared, one after another: the first of them asks
// all hosts whether the copy is in use, and the others find that it is gone. If it can't be removed, its error is that
// of the others.
func (s *Storage) removeShared(ctx context.Context, hosts, staying hostset.Set, ref Ref) map[string]error {
	failed := map[string]error{}
	for _, h := range hosts {
		same := func(other hostset.Host) bool { return s.SamePool(ctx, ref.Pool, h.Name, other.Name) }
		if slices.ContainsFunc(staying, same) {
			continue
		}
		var err error
		before := hosts.Named(slices.Collect(maps.Keys(failed))...)
		if i := slices.IndexFunc(before, same); i >= 0 {
			err = failed[before[i].Name]
		} else {
			err = s.removeCopy(ctx, s.Hosts.Present(), h.Name, ref)
		}
		if err != nil {
			failed[h.Name] = err
		}
	}
	return failed
}

func (s *Storage) checkCopy(ctx context.Context, users hostset.Set, host string, ref Ref) error {
	h, err := s.host(host)
	if err == nil {
		_, err = s.findUnused(ctx, users, h, ref, "")
	}
	if errors.Is(err, libvirt.ErrNoPool) {
		return nil
	}
	return err
}

func (s *Storage) removeCopy(ctx context.Context, users hostset.Set, host string, ref Ref) error {
	err := s.DeleteUnused(ctx, users, host, ref, "")
	if errors.Is(err, libvirt.ErrNoPool) {
		return nil
	}
	return err
}
