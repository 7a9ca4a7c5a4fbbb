package storage

import (
	"context"
	"errors"
	"fmt"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// DeleteUnused removes a volume that no definition and no other volume uses; otherwise it returns ErrInUse. It returns
// ErrRemovesNone or a PartitionError if libvirt can't remove the volume, and ErrOtherPath if it isn't at the path where
// it was: the pool has another volume of this name by now. A path of "" is any. hosts are asked for users, see Users;
// if one of them can't answer, the volume isn't removed. It is no error if the volume doesn't exist.
func (s *Storage) DeleteUnused(ctx context.Context, hosts hostset.Set, host string, ref Ref, at string) error {
	h, err := s.host(host)
	if err != nil {
		return err
	}
	return s.lockedForAll(ctx, host, ref, "removing", func(ctx context.Context) error {
		found, err := s.findUnused(ctx, hosts, h, ref, at)
		if err == nil && found {
			removal := Removal{
				Hosts: append([]string{host}, hosts.Without(host).Names()...), Path: at, Ref: ref, What: "volume " + ref.String(),
			}
			err = s.Handovers.remove(removal, func() error { return h.DeleteVolume(ctx, ref.Pool, ref.Name) })
		}
		if err == nil {
			s.endVolume(ctx, h, ref) // One that was imported after its creation was interrupted still has it.
		}
		return err
	})
}

// findUnused reports whether a host has a volume. It returns an error if DeleteUnused would refuse to remove it.
func (s *Storage) findUnused(
	ctx context.Context, hosts hostset.Set, h *libvirt.Host, ref Ref, at string,
) (found bool, _ error) {
	if err := refresh(ctx, h, ref.Pool); err != nil {
		return false, err
	}
	v, err := s.poolVolume(ctx, h, ref)
	if errors.Is(err, libvirt.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if at != "" && v.Path != at {
		return true, errOtherPath(*v, at)
	}
	users, err := s.Users(ctx, hosts, *v)
	if err != nil {
		return true, fmt.Errorf("can't determine whether it is in use: %w", err)
	}
	if len(users) > 0 {
		return true, inUse(users[0])
	}
	return true, checkRemoval(ctx, h, ref)
}
