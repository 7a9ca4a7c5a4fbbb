package storage

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// Copy is an image's volume on a host.
type Copy struct {
	libvirt.Volume

	// Incomplete says that the upload was interrupted.
	Incomplete bool
}

// Copies looks for the copies of an image. If seal is nil, every copy counts as whole.
func (s *Storage) Copies(
	ctx context.Context, hosts hostset.Set, ref Ref, seal *Seal,
) []hostset.Answer[Copy] {
	return hostset.Ask(ctx, hosts, func(ctx context.Context, h *libvirt.Host) (*Copy, error) {
		return copyOn(ctx, h, ref, seal)
	})
}

func copyOn(ctx context.Context, h *libvirt.Host, ref Ref, seal *Seal) (*Copy, error) {
	v, err := h.PoolVolume(ctx, ref.Pool, ref.Name)
	if err != nil || seal == nil {
		return &Copy{Volume: *orZero(v)}, err
	}
	data, err := h.VolumeBytes(ctx, ref.Pool, ref.Name, seal.Offset, seal.Bytes)
	if errors.Is(err, libvirt.ErrUnreachable) || errors.Is(err, libvirt.ErrOperationInvalid) {
		return nil, err
	}
	return &Copy{Volume: *v, Incomplete: !seal.matches(data, err)}, nil
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

// Put copies the image to the hosts that have no whole copy of it, all at the same time. If it fails on a host, nothing
// stays on that host, unless the host is unreachable.
func (s *Storage) Put(
	ctx context.Context, hosts hostset.Set, ref Ref, image *Image,
) (failed map[string]error) {
	return hostset.Each(ctx, hosts, func(ctx context.Context, h hostset.Host) error {
		return s.locked(ctx, h.Name, ref.Pool, ref.Name, "uploading", func(ctx context.Context) error {
			return s.put(ctx, h.Conn, ref, image)
		})
	})
}

func (s *Storage) put(ctx context.Context, h *libvirt.Host, ref Ref, image *Image) error {
	if err := refresh(ctx, h, ref.Pool); err != nil {
		return err
	}
	is, err := copyOn(ctx, h, ref, image.Seal)
	switch {
	case err == nil && !is.Incomplete:
		return nil
	case err == nil:
		if err := h.DeleteVolume(ctx, ref.Pool, ref.Name); err != nil {
			return err
		}
	case !errors.Is(err, libvirt.ErrNotFound):
		return err
	}
	if err := s.makeCopy(ctx, h, ref, image); err != nil {
		return err
	}
	err = s.send(ctx, h, ref, image)
	if err == nil {
		return nil
	}
	cleaning, cancel := hostset.CleanupContext(ctx)
	defer cancel()
	return errors.Join(err, h.DeleteVolume(cleaning, ref.Pool, ref.Name))
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
	files := false
	for _, t := range filePools {
		files = files || t == is.Type
	}
	if !files && image.Format != "raw" {
		return fmt.Errorf("%w: storage pool %q is of type %s, whose volumes are raw, and the image is %s; "+
			"convert it with qemu-img convert -O raw", libvirt.ErrUnsupported, ref.Pool, is.Type, image.Format)
	}
	d := Disk{Pool: ref.Pool, Name: ref.Name, Format: "raw", Bytes: image.Bytes, Mode: "0644"}
	document, err := d.document(is.Type, nil)
	if err != nil {
		return err
	}
	need := Demand{Now: image.DataBytes, Growth: image.Bytes}
	return s.taking(ctx, h.Name(), ref.Pool, need, func(ctx context.Context) error {
		return h.CreateVolume(ctx, libvirt.NewVolume{Pool: ref.Pool, Name: ref.Name, Document: document})
	})
}

// send writes everything, then the seal, and checks that it arrived.
func (s *Storage) send(ctx context.Context, h *libvirt.Host, ref Ref, image *Image) error {
	p := newProgress(s.Log, "uploading an image", "host", h.Name(), image.Bytes)
	u := libvirt.Upload{
		Pool: ref.Pool, Name: ref.Name, Content: image.file, Length: image.Bytes, Skip: image.skips, Progress: p.reach,
	}
	if err := h.UploadVolume(ctx, u); err != nil {
		return err
	}
	if err := image.unchanged(); err != nil {
		return err
	}
	if image.Seal != nil {
		u.Skip, u.Offset, u.Length, u.Progress = nil, image.Seal.Offset, image.Seal.Bytes, nil
		if err := h.UploadVolume(ctx, u); err != nil {
			return err
		}
	}
	if err := s.settle(ctx, h, ref.Pool); err != nil {
		return err
	}
	is, err := copyOn(ctx, h, ref, image.Seal)
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
	for {
		err := h.RefreshStoragePool(ctx, pool)
		if !errors.Is(err, libvirt.ErrInternal) || ctx.Err() != nil {
			return err
		}
		s.Log.Debug("a storage pool is busy", "host", h.Name(), "storage_pool", pool)
	}
}
