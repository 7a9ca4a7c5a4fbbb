package storage

import (
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
	hosts, err := s.UserHosts(ctx, host, v.Pool)
	if err != nil {
		return nil, err
	}
	users, err := s.KnownUsers(ctx, hosts, v)
	if err != nil {
		return nil, err
	}
	for _, u := range users {
		if u.Active && u.Target != "" && !u.ReadOnly {
			return &u, nil
		}
	}
	return nil, nil
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
