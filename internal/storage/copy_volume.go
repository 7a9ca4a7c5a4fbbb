package storage

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// SeenByGuests returns a volume of a host as the VMs see it whose disk it is. If one of them has it as raw, what
// libvirt finds in the file is what a guest has written there. It changes nothing.
func (s *Storage) SeenByGuests(ctx context.Context, host string, v libvirt.Volume) (libvirt.Volume, error) {
	raw := v.UsedAs("raw")
	if raw == v {
		return v, nil
	}
	hosts, err := s.UserHosts(ctx, host, v.Pool)
	if err != nil {
		return v, err
	}
	users, err := s.KnownUsers(ctx, hosts, v)
	if slices.ContainsFunc(users, func(u User) bool { return u.Format == "raw" }) {
		return raw, err
	}
	return v, err
}

// Writer returns a VM that runs and can write to a volume of a host, nil for none. It changes nothing.
func (s *Storage) Writer(ctx context.Context, host string, v libvirt.Volume) (*User, error) {
	writers, err := s.writers(ctx, host, v)
	for _, u := range writers {
		if u.Active {
			return &u, nil
		}
	}
	return nil, err
}

// writers returns the VMs that can write to a volume of a host while they run.
func (s *Storage) writers(ctx context.Context, host string, v libvirt.Volume) ([]User, error) {
	hosts, err := s.UserHosts(ctx, host, v.Pool)
	if err != nil {
		return nil, err
	}
	users, err := s.KnownUsers(ctx, hosts, v)
	return slices.DeleteFunc(users, func(u User) bool { return u.VM == "" || u.Target == "" || u.ReadOnly }), err
}

// holdWriters keeps every run from starting a VM that is off and can write to the volume of which d is a copy, until
// release is called: it takes their locks, which a start requires. It takes none for an image, which no guest writes
// to. Whether one of the VMs runs by then is for readWritten. A VM that gets the volume meanwhile isn't kept from it.
func (s *Storage) holdWriters(
	ctx context.Context, h *libvirt.Host, d Disk,
) (held context.Context, release func(), err error) {
	var unlock []func()
	held, release = ctx, func() {
		for _, let := range slices.Backward(unlock) {
			let()
		}
	}
	if d.Clone == nil || !d.CloneWritten {
		return held, release, nil
	}
	if err := refresh(ctx, h, d.Clone.Pool); err != nil {
		return nil, nil, err
	}
	v, err := h.PoolVolume(ctx, d.Clone.Pool, d.Clone.Name)
	if err != nil {
		return nil, nil, fmt.Errorf("volume %s, which it is made from: %w", d.Clone, err)
	}
	writers, err := s.writers(ctx, h.Name(), *v)
	if err != nil {
		return nil, nil, err
	}
	// Two copies take the locks in one order.
	slices.SortFunc(writers, func(a, b User) int {
		return cmp.Or(cmp.Compare(a.UUID, b.UUID), cmp.Compare(a.Host, b.Host))
	})
	writers = slices.CompactFunc(writers, func(a, b User) bool { return a.UUID == b.UUID && a.Host == b.Host })
	for _, u := range writers {
		if u.Active || u.UUID == d.VM {
			continue
		}
		next, let, err := s.Lock(held, u.Host, u.UUID, "copying a disk of")
		if err != nil {
			release()
			return nil, nil, err
		}
		held, unlock = next, append(unlock, let)
	}
	return held, release, nil
}

// readWritten returns the volume that a guest may have written to, and of which d is a copy. libvirt reads volumes
// again before it copies them, and would convert a raw one that it takes for an image: copyContent copies that. It
// returns ErrInUse while a guest writes to the volume: the copy would have some writes and lack earlier ones.
func (s *Storage) readWritten(ctx context.Context, h *libvirt.Host, d *Disk) (*libvirt.Volume, error) {
	if err := refresh(ctx, h, d.Clone.Pool); err != nil {
		return nil, err
	}
	found, err := h.PoolVolume(ctx, d.Clone.Pool, d.Clone.Name)
	if err != nil {
		return nil, err
	}
	switch writer, err := s.Writer(ctx, h.Name(), *found); {
	case err != nil:
		return nil, err
	case writer != nil:
		return nil, fmt.Errorf("%w: %s and runs, so it may write while the volume is copied", ErrInUse, writer)
	}
	v, err := s.SeenByGuests(ctx, h.Name(), *found)
	if err != nil {
		return nil, err
	}
	if v == *found {
		return found, nil
	}
	if d.usedFormat() != "raw" {
		return nil, fmt.Errorf("%w: it is raw, and its guest has written into it what libvirt takes for something else. "+
			"Only a copy with format = \"raw\", and without encryption, has the same content", libvirt.ErrInvalid)
	}
	d.misread = v.CapacityBytes
	return &v, nil
}

// copyContent copies a raw volume of that many bytes to another one byte by byte, through this process. Zeros are left
// as holes.
func (s *Storage) copyContent(ctx context.Context, h *libvirt.Host, from, to Ref, length uint64) error {
	content, sent := io.Pipe()
	defer func() { _ = content.Close() }()
	go func() { sent.CloseWithError(h.DownloadVolume(ctx, from.Pool, from.Name, sent)) }()
	p := newProgress(s.Log, "copying a volume", "host", h.Name(), length)
	if err := h.UploadVolume(ctx, libvirt.Upload{
		Pool: to.Pool, Name: to.Name, Content: inOrder{io.TeeReader(content, p)}, Length: length,
	}); err != nil {
		return err
	}
	more, err := io.Copy(io.Discard, content)
	if err == nil && more > 0 {
		err = fmt.Errorf("%w: volume %s grew while it was copied", libvirt.ErrBusy, from)
	}
	return err
}

// inOrder reads what is asked for in order.
type inOrder struct{ io.Reader }

// ReadAt returns what follows, which begins at the offset.
func (r inOrder) ReadAt(p []byte, _ int64) (int, error) { return io.ReadFull(r, p) }
