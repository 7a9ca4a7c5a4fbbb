package storage

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// ImageCopy is an image's volume on a host.
type ImageCopy struct {
	libvirt.Volume

	// Incomplete says that the upload was interrupted.
	Incomplete bool
}

// Copies looks for the copies of an image. If seal is nil, every copy counts as whole.
func (s *Storage) Copies(
	ctx context.Context, hosts hostset.Set, ref Ref, seal *Seal,
) []hostset.Answer[ImageCopy] {
	return hostset.Ask(ctx, hosts, func(ctx context.Context, h *libvirt.Host) (*ImageCopy, error) {
		return s.copyOn(ctx, h, ref, seal)
	})
}

func (s *Storage) copyOn(ctx context.Context, h *libvirt.Host, ref Ref, seal *Seal) (*ImageCopy, error) {
	v, err := s.poolVolume(ctx, h, ref)
	if err != nil || seal == nil {
		return &ImageCopy{Volume: *orZero(v)}, err
	}
	data, err := h.VolumeBytes(ctx, ref.Pool, ref.Name, seal.Offset, seal.Bytes)
	if errors.Is(err, libvirt.ErrUnreachable) || errors.Is(err, libvirt.ErrOperationInvalid) ||
		errors.Is(err, libvirt.ErrDenied) { // Of the copy, this says nothing.
		return nil, err
	}
	return &ImageCopy{Volume: *v, Incomplete: !seal.matches(data, err)}, nil
}

// matches reports whether a copy has the seal. A file that can't be read is no copy that VMs could use.
func (s *Seal) matches(data []byte, err error) bool {
	sum := sha256.Sum256(data)
	return err == nil && hex.EncodeToString(sum[:]) == s.SHA256
}

func orZero(v *libvirt.Volume) *libvirt.Volume {
	if v == nil {
		return &libvirt.Volume{}
	}
	return v
}

// uploadTries is how often an upload whose connection is lost is begun or continued before it fails, and uploadPause
// how long it waits before the second try. Each further wait is twice as long.
const (
	uploadTries = 5
	uploadPause = time.Second
)

// Put copies the image to the hosts that have no whole copy of it, all at the same time, and to those that share the
// pool through one of them. An upload that was interrupted continues where it stopped if that is safe, see arrived. If
// Put fails on a host, nothing stays on that host, unless the host is unreachable.
func (s *Storage) Put(ctx context.Context, hosts hostset.Set, ref Ref, image *Image) (failed map[string]error) {
	var sharing []string
	for _, a := range hostset.Found(PoolOn(ctx, hosts, ref.Pool)) {
		if a.Value.Shared {
			sharing = append(sharing, a.Host)
		}
	}
	shared := make(chan map[string]error, 1)
	go func() { shared <- s.putShared(ctx, hosts.Named(sharing...), ref, image) }()
	failed = s.putEach(ctx, hosts.Without(sharing...), ref, image)
	maps.Copy(failed, <-shared)
	return failed
}

func (s *Storage) putEach(ctx context.Context, hosts hostset.Set, ref Ref, image *Image) (failed map[string]error) {
	return hostset.Each(ctx, hosts, func(ctx context.Context, h hostset.Host) error {
		return s.lockedForAll(ctx, h.Name, ref, "uploading", func(ctx context.Context) error {
			return s.put(ctx, h, ref, image)
		})
	})
}

// putShared copies the image to a pool that hosts share, through the first of them that can be reached.
func (s *Storage) putShared(ctx context.Context, hosts hostset.Set, ref Ref, image *Image) (failed map[string]error) {
	failed = map[string]error{}
	for i, h := range hosts {
		err := s.putEach(ctx, hosts[i:i+1], ref, image)[h.Name]
		switch {
		case err == nil:
			others := hosts[i+1:]
			s.RefreshElsewhere(ctx, others, h.Name, ref.Pool)
			for _, a := range s.Copies(ctx, others, ref, nil) {
				if a.Err == nil && a.Value == nil {
					a.Err = fmt.Errorf("%w: the copy isn't in its storage pool %q, which should be that of host %q",
						libvirt.ErrNotFound, ref.Pool, h.Name)
				}
				if a.Err != nil {
					failed[a.Host] = a.Err
				}
			}
			return failed
		case !errors.Is(err, libvirt.ErrUnreachable) || ctx.Err() != nil:
			for _, h := range hosts[i:] {
				failed[h.Name] = err
			}
			return failed
		}
		failed[h.Name] = err
	}
	return failed
}

func (s *Storage) put(ctx context.Context, h hostset.Host, ref Ref, image *Image) error {
	began, err := s.retryCut(ctx, h.Name, ref, func() (bool, error) { return s.tryPut(ctx, h, ref, image) })
	if err == nil || !began {
		return err
	}
	cleaning, cancel := hostset.CleanupContext(ctx)
	defer cancel()
	left := h.Conn.DeleteVolume(cleaning, ref.Pool, ref.Name)
	if errors.Is(left, libvirt.ErrNotFound) {
		left = nil
	}
	return errors.Join(explainFull(ctx, h.Conn, ref.Pool, image.DataBytes, err), left)
}

// retryCut calls try until the connection stays. It reports whether the upload has left a part of the copy that is to
// be removed: not if try found a copy that stays. A VM that was started since the upload was cut may have data in it.
func (s *Storage) retryCut(
	ctx context.Context, host string, ref Ref, try func() (sent bool, err error),
) (began bool, err error) {
	began, err = try()
	for n := 1; began && errors.Is(err, libvirt.ErrUnreachable) && n < uploadTries; n++ {
		s.Log.Warn("an upload was cut", "host", host, "storage_pool", ref.Pool, "volume", ref.Name, "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(uploadPause << (n - 1)):
		}
		if ctx.Err() != nil {
			break
		}
		if _, err = try(); err != nil {
			_, stays := errors.AsType[keptError](err)
			began = !stays
		}
	}
	return began, err
}

// keptError says why a copy that isn't the image stays: it is in use, or may be.
type keptError struct{ error }

func (e keptError) Unwrap() error { return e.error }

// tryPut sends the image, or what is missing of an interrupted upload. It reports whether a part of the copy may be on
// the host.
func (s *Storage) tryPut(ctx context.Context, h hostset.Host, ref Ref, image *Image) (sent bool, err error) {
	if err := refresh(ctx, h.Conn, ref.Pool); err != nil {
		return false, err
	}
	is, err := s.copyOn(ctx, h.Conn, ref, image.Seal)
	switch {
	case err == nil && !is.Incomplete:
		return false, nil
	case err == nil:
		if from, ok := s.arrived(ctx, h, is.Volume, image); ok {
			return true, s.resume(ctx, h, ref, image, from)
		}
		if isRemnant(ctx, h, is.Volume, image) {
			err = h.Conn.DeleteVolume(ctx, ref.Pool, ref.Name)
		} else if err = s.removeIncomplete(ctx, h, is.Volume); err != nil {
			err = keptError{err}
		}
		if err != nil {
			return false, err
		}
	case !errors.Is(err, libvirt.ErrNotFound):
		return false, err
	}
	if err := s.makeCopy(ctx, h.Conn, ref, image); err != nil {
		return false, err
	}
	return true, s.send(ctx, h, ref, image, 0)
}

// isRemnant reports whether an incomplete copy is certainly what an interrupted upload has left, so that no VM has data
// in it: a file that is shorter than the qcow2 image and has zeros in place of its header, which is sent last. A guest
// never shortens a file. A user may, so the length alone doesn't suffice, and a raw image has no header that every VM
// needs.
func isRemnant(ctx context.Context, h hostset.Host, v libvirt.Volume, image *Image) bool {
	if image.Format != "qcow2" || v.Type != "file" || v.PhysicalBytes >= image.Bytes {
		return false
	}
	begins, err := beginning(ctx, h.Conn, v)
	return err == nil && begins == nil
}

// removeIncomplete removes what isn't the image, unless it is in use: a VM may run on the image's copy itself and have
// written to it.
func (s *Storage) removeIncomplete(ctx context.Context, h hostset.Host, v libvirt.Volume) error {
	hosts, err := s.UserHosts(ctx, h.Name, v.Pool)
	if err != nil {
		return err
	}
	users, err := s.Users(ctx, hosts, v)
	switch {
	case err != nil:
		return fmt.Errorf("the copy %s isn't the image, and can't be sent again: can't determine whether it is in use: "+
			"%w", v.Path, err)
	case len(users) > 0 && users[0].Copy != "":
		return fmt.Errorf("%w: the copy %s isn't the image, and %s", ErrInUse, v.Path, users[0])
	case len(users) > 0 && users[0].Volume != "":
		return fmt.Errorf("%w: the copy %s isn't the image, for example because it was written to, and %s. The content of "+
			"that volume would change if the image were sent again. Copy the volume with qemu-img convert, or remove it",
			ErrInUse, v.Path, users[0])
	case len(users) > 0:
		return fmt.Errorf("%w: the copy %s isn't the image, for example because a virtual machine has written to it, and "+
			"%s. It would be lost if the image were sent again. Copy the data elsewhere, and give the virtual machine another "+
			"disk: one with image is an overlay of the copy, or a copy of its own", ErrInUse, v.Path, users[0])
	}
	return h.Conn.DeleteVolume(ctx, v.Pool, v.Name)
}

// makeCopy creates the volume for the content, in raw format: the bytes are copied as they are.
func (s *Storage) makeCopy(ctx context.Context, h *libvirt.Host, ref Ref, image *Image) error {
	pool, err := h.StoragePool(ctx, ref.Pool)
	if err != nil {
		return err
	}
	is, err := ReadPool(pool.XML)
	if err != nil {
		return err
	}
	if err := is.CheckImage(image.Format); err != nil {
		return err
	}
	d := Disk{Pool: ref.Pool, Name: ref.Name, Format: "raw", Bytes: image.Bytes, Mode: "0644"}
	if _, err := s.complete(ctx, h, &d, is.Type); err != nil {
		return err
	}
	document, err := d.document(is.Type, nil)
	if err != nil {
		return err
	}
	need := Demand{Now: max(image.DataBytes, d.need(nil)), Growth: image.Bytes}
	err = s.taking(ctx, h.Name(), ref.Pool, need, func(ctx context.Context) error {
		return h.CreateVolume(ctx, libvirt.NewVolume{Pool: ref.Pool, Name: ref.Name, Document: document})
	})
	if err == nil {
		s.Handovers.made(h.Name(), ref)
	}
	return explainFull(ctx, h, ref.Pool, need.Now, err)
}

// send writes the content from an offset on, then the seal, and checks that it arrived.
func (s *Storage) send(ctx context.Context, h hostset.Host, ref Ref, image *Image, from uint64) error {
	p := newProgress(s.Log, "uploading an image", "host", h.Name, image.Bytes-from)
	u := libvirt.Upload{
		Pool: ref.Pool, Name: ref.Name, Content: image.file, Offset: from, Length: image.Bytes - from, Skip: image.skips,
		Progress: p.reach,
	}
	if err := h.Conn.UploadVolume(ctx, u); err != nil {
		return err
	}
	if err := image.unchanged(); err != nil {
		return err
	}
	if from > 0 {
		if err := s.checkResumed(ctx, h, ref, image); err != nil {
			return err
		}
	}
	if image.Seal != nil {
		u.Skip, u.Offset, u.Length, u.Progress = nil, image.Seal.Offset, image.Seal.Bytes, nil
		if err := h.Conn.UploadVolume(ctx, u); err != nil {
			return err
		}
	}
	if err := s.settle(ctx, h.Conn, ref.Pool); err != nil {
		return err
	}
	is, err := s.copyOn(ctx, h.Conn, ref, image.Seal)
	switch {
	case err != nil:
		return err
	case is.Incomplete:
		return fmt.Errorf("%w: what was read back is not what was sent", libvirt.ErrInternal)
	case is.Format != "" && is.Format != image.Format || is.CapacityBytes < image.CapacityBytes:
		return fmt.Errorf("%w: libvirt takes the copy to be %s of %d bytes, the image is %s of %d", libvirt.ErrInternal,
			is.Format, is.CapacityBytes, image.Format, image.CapacityBytes)
	}
	return nil
}

// settle refreshes the pool, which then reports the copy with the format of its content. It waits while other runs
// create volumes in the pool.
func (s *Storage) settle(ctx context.Context, h *libvirt.Host, pool string) error {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	return s.awaitIdle(ctx, h, pool)
}

// awaitIdle refreshes the pool, once no run creates volumes in it any more. It waits until the deadline of ctx, and
// then says what it was waiting for.
func (s *Storage) awaitIdle(ctx context.Context, h *libvirt.Host, pool string) error {
	for {
		err := h.RefreshStoragePool(ctx, pool)
		switch {
		case err != nil && ctx.Err() != nil:
			return fmt.Errorf("waiting until libvirt no longer creates volumes in storage pool %q: %w: %w", pool,
				context.Cause(ctx), err)
		case !errors.Is(err, libvirt.ErrInternal):
			return err
		}
		s.Log.Debug("a storage pool is busy", "host", h.Name(), "storage_pool", pool)
	}
}
