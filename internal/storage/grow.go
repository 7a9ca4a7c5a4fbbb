package storage

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// Growth is a volume to make larger.
type Growth struct {
	Host string
	Ref  Ref
	// Was is the size that it had at the last refresh, 0 if that isn't known.
	Was uint64
	// Bytes is the size that a guest sees then.
	Bytes uint64
	// Format is the volume's, as it is known apart from what libvirt finds in it; "" if it isn't known, or if the volume
	// is encrypted.
	Format string
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
		if Shortened(*v, g.Format, g.Was) {
			return fmt.Errorf("%w: the file %s looks like %q now, and has less than %d bytes", ErrConverted, v.Path, v.Format,
				g.Was)
		}
		have := v.UsedAs(g.Format).CapacityBytes
		if _, err := g.check(have); err != nil {
			return err
		}
		user, err := s.diskUser(ctx, g.Hosts, *v)
		switch {
		case err != nil:
			return err
		case user != nil && user.Active:
			return s.growRunning(ctx, h, g, *user, have)
		case user != nil && user.Format != "":
			g.Format = user.Format // A guest of this VM has written what libvirt finds.
		}
		if done, err := g.check(v.UsedAs(g.Format).CapacityBytes); done || err != nil {
			return err
		}
		return s.growUnused(ctx, h, g, *v)
	})
}

// ErrConverted says that another tool has converted a raw volume, or replaced its file.
var ErrConverted = errors.New("the file isn't the raw volume any more")

// Shortened reports whether a volume that was used as the format, and had that size, can't be that any more: what looks
// like an image in a raw file is what its guest wrote there, unless the file has become shorter, which no guest does.
func Shortened(v libvirt.Volume, format string, bytes uint64) bool {
	used := v.UsedAs(format)
	return used != v && used.CapacityBytes < bytes
}

// check reports whether a volume of that many bytes has the size already, and returns an error if it is larger.
func (g Growth) check(bytes uint64) (done bool, err error) {
	if g.Bytes < bytes {
		err = fmt.Errorf("%w: volume %s has %d bytes and never shrinks, asked for are %d", libvirt.ErrInvalid, g.Ref, bytes,
			g.Bytes)
	}
	return g.Bytes == bytes, err
}

// diskUser returns the VM that has a volume as its disk, nil for none: one that runs, or one that uses it as raw,
// before others. It returns ErrInUse if something uses the volume that doesn't see its growth.
func (s *Storage) diskUser(ctx context.Context, hosts hostset.Set, v libvirt.Volume) (disk *User, _ error) {
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
		case disk == nil || u.Format == "raw":
			disk = &u
		}
	}
	return disk, nil
}

// growRunning makes a volume of that many bytes larger through the VM that runs on it. QEMU grows it thin. The size is
// the one that QEMU reports: it would cut a raw disk to fewer bytes, and a guest doesn't see what other tools grew.
func (s *Storage) growRunning(ctx context.Context, h *libvirt.Host, g Growth, u User, have uint64) error {
	runs, err := s.host(u.Host)
	if err != nil {
		return err
	}
	disks, err := runs.BlockInfos(ctx, u.UUID, []string{u.Target})
	if err = errors.Join(err, disks[u.Target].Err); err != nil {
		return err
	}
	bytes := disks[u.Target].Capacity
	if done, err := g.check(bytes); done || err != nil {
		return err
	}
	if err := s.jobOn(ctx, u); err != nil {
		return err
	}
	more := Demand{Growth: g.Bytes - max(bytes, have)}
	if err := s.taking(ctx, g.Host, g.Ref.Pool, more, func(ctx context.Context) error {
		return runs.BlockResize(ctx, u.UUID, u.Target, g.Bytes)
	}); err != nil {
		return err
	}
	return refresh(ctx, h, g.Ref.Pool)
}

// growUnused makes a volume larger that no VM runs on.
func (s *Storage) growUnused(ctx context.Context, h *libvirt.Host, g Growth, v libvirt.Volume) error {
	is := v.UsedAs(g.Format)
	more := Demand{Growth: g.Bytes - is.CapacityBytes}
	thick := GrowsThick(g.Preallocation, v) && v == is
	if thick {
		more.Now = more.Growth
	}
	err := s.taking(ctx, g.Host, g.Ref.Pool, more, func(ctx context.Context) error {
		return h.GrowVolume(ctx, v, g.Format, g.Bytes, thick)
	})
	err = explainFull(ctx, h, g.Ref.Pool, more.Now, err)
	if is.Encrypted && errors.Is(err, libvirt.ErrInvalid) {
		return needsVM(err, v)
	}
	return err
}

// CheckEncryptedGrowth returns an error if libvirt can't grow a host's volume now, because it is encrypted. It changes
// nothing. What it can't find out, Grow does.
func (s *Storage) CheckEncryptedGrowth(ctx context.Context, host string, ref Ref) error {
	found := hostset.Found(s.Volume(ctx, s.Hosts.Named(host), ref))
	if len(found) == 0 || !found[0].Value.Encrypted {
		return nil
	}
	grows, err := s.growsEncrypted(ctx, host, *found[0].Value)
	if err == nil && !grows {
		return needsVM(libvirt.ErrOperationInvalid, *found[0].Value)
	}
	s.Log.Debug("growth of an encrypted volume", "host", host, "volume", ref.String(), "possible", grows, "error", err)
	return nil
}

// growsEncrypted reports whether libvirt can grow an encrypted volume of a host now: through a VM that runs on it, or
// with a secret that it finds by the volume's path.
func (s *Storage) growsEncrypted(ctx context.Context, host string, v libvirt.Volume) (bool, error) {
	hosts, err := s.UserHosts(ctx, host, v.Pool)
	if err != nil {
		return false, err
	}
	users, err := s.KnownUsers(ctx, hosts, v)
	if err != nil || slices.ContainsFunc(users, func(u User) bool { return u.Active }) {
		return err == nil, err
	}
	h, err := s.host(host)
	if err != nil {
		return false, err
	}
	_, err = h.SecretByUsage(ctx, "volume", v.Path)
	if errors.Is(err, libvirt.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// needsVM returns that error with what libvirt needs to grow an encrypted volume.
func needsVM(err error, v libvirt.Volume) error {
	return fmt.Errorf("%w: volume %s is encrypted. libvirt grows it while a VM runs on it, or if its passphrase is "+
		"a secret of usage \"volume\" with the usage_id %q", err, Ref{Pool: v.Pool, Name: v.Name}, v.Path)
}
