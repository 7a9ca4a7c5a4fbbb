package storage

import (
	"context"
	"errors"
	"fmt"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// Growth is a volume to make larger.
type Growth struct {
	Host string
	Ref  Ref
	// Bytes is the size that a guest sees then.
	Bytes uint64
	// Preallocation is what the volume was created with.
	Preallocation string
	// Hosts are asked for users, see Users.
	Hosts hostset.Set
}

// Grow makes a volume larger: through the VM that runs on it, so that its guest sees that at once, otherwise directly.
// It never shrinks a volume.
func (s *Storage) Grow(ctx context.Context, g Growth) error {
	h, err := s.host(g.Host)
	if err != nil {
		return err
	}
	return s.locked(ctx, g.Host, g.Ref, "growing", func(ctx context.Context) error {
		v, err := h.PoolVolume(ctx, g.Ref.Pool, g.Ref.Name)
		if err != nil {
			return err
		}
		if g.Bytes == v.CapacityBytes {
			return nil
		}
		if g.Bytes < v.CapacityBytes {
			return fmt.Errorf("%w: volume %s has %d bytes and never shrinks, asked for are %d", libvirt.ErrInvalid,
				g.Ref, v.CapacityBytes, g.Bytes)
		}
		user, err := s.runningUser(ctx, g.Hosts, *v)
		if err != nil {
			return err
		}
		if user != nil {
			return s.growRunning(ctx, h, g, v, *user)
		}
		return s.growUnused(ctx, h, g, v)
	})
}

// runningUser returns the VM that runs on a volume, nil for none. It returns ErrInUse if something uses the volume that
// doesn't see its growth.
func (s *Storage) runningUser(ctx context.Context, hosts hostset.Set, v libvirt.Volume) (*User, error) {
	// Growth takes nothing from an overlay, so disks whose files can't be read don't prevent it.
	is, err := s.users(ctx, hosts, search{list: volumesWith, limit: searchLimit}, v)
	if err != nil {
		return nil, err
	}
	for _, u := range is.users {
		switch {
		case u.Volume != "" || u.Active && u.Target == "":
			return nil, fmt.Errorf("%w: %s, so it can't grow", ErrInUse, u)
		case u.Active:
			return &u, nil
		}
	}
	return nil, nil
}

// growRunning makes a volume larger through the VM that runs on it. QEMU grows it thin.
func (s *Storage) growRunning(ctx context.Context, h *libvirt.Host, g Growth, v *libvirt.Volume, u User) error {
	runs, err := s.host(u.Host)
	if err != nil {
		return err
	}
	more := Demand{Growth: g.Bytes - v.CapacityBytes}
	if err := s.taking(ctx, g.Host, g.Ref.Pool, more, func(ctx context.Context) error {
		return runs.BlockResize(ctx, u.UUID, u.Target, g.Bytes)
	}); err != nil {
		return err
	}
	return refresh(ctx, h, g.Ref.Pool)
}

// growUnused makes a volume larger that no VM runs on.
func (s *Storage) growUnused(ctx context.Context, h *libvirt.Host, g Growth, v *libvirt.Volume) error {
	more := Demand{Growth: g.Bytes - v.CapacityBytes}
	thick := GrowsThick(g.Preallocation, v.Format)
	if thick {
		more.Now = more.Growth
	}
	err := s.taking(ctx, g.Host, g.Ref.Pool, more, func(ctx context.Context) error {
		return h.ResizeVolume(ctx, g.Ref.Pool, g.Ref.Name, g.Bytes, thick)
	})
	err = explainFull(ctx, h, g.Ref.Pool, more.Now, err)
	if v.Encrypted && errors.Is(err, libvirt.ErrInvalid) {
		return fmt.Errorf("%w: volume %s is encrypted. libvirt grows it while a VM runs on it, or if its passphrase is "+
			"a secret of usage \"volume\" with the usage_id %q", err, g.Ref, v.Path)
	}
	return err
}
