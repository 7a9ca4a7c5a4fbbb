package storage

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"strings"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// errIncomplete says that an image's copy lacks a part of its content.
var errIncomplete = fmt.Errorf("%w: an incomplete copy of an image", libvirt.ErrOperationInvalid)

// qcow2Magic begins a qcow2 image.
const qcow2Magic = "QFI\xfb"

// beginningBytes is how much of a copy is read first. Most contents have data there.
const beginningBytes = 4 << 10

// IsWhole reports whether a host's copy of an image has all of its content, as far as the copy's beginning says: an
// upload sends the first chunk with data last. A plan asks this for each VM and host, so it reads nothing of a copy in
// which libvirt has found the header of a qcow2 image.
func (s *Storage) IsWhole(ctx context.Context, host string, v libvirt.Volume) (bool, error) {
	if v.Format == "qcow2" {
		return true, nil
	}
	h, err := s.host(host)
	if err != nil {
		return false, err
	}
	begins, err := beginning(ctx, h, v)
	if err != nil {
		return false, err
	}
	return s.isWhole(ctx, host, v, begins)
}

// BeginsBlank reports whether the first chunk of a host's volume has no data, as after an interrupted upload of an
// image.
func (s *Storage) BeginsBlank(ctx context.Context, host string, v libvirt.Volume) (bool, error) {
	h, err := s.host(host)
	if err != nil {
		return false, err
	}
	begins, err := beginning(ctx, h, v)
	return err == nil && begins == nil, err
}

// isWhole is IsWhole for a copy with that beginning. An image may begin with zeros: then the content is compared with
// the copy's name.
func (s *Storage) isWhole(ctx context.Context, host string, v libvirt.Volume, begins []byte) (bool, error) {
	if begins != nil {
		return true, nil
	}
	h, _ := s.Hosts.Host(host)
	if h.SHA256 != nil && v.Type == "file" {
		sum, err := h.SHA256(ctx, v.Path)
		return err == nil && strings.HasSuffix(v.Name, "-"+sum[:12]), err
	}
	n := newNamed(v.Name)
	if err := h.Conn.DownloadVolume(ctx, v.Pool, v.Name, n); err != nil && !n.is() {
		return false, err
	}
	return n.is(), nil
}

// beginning returns what a copy begins with, nil if the first chunk has no data.
func beginning(ctx context.Context, h *libvirt.Host, v libvirt.Volume) ([]byte, error) {
	for _, length := range []uint64{beginningBytes, libvirt.UploadChunk} {
		data, err := h.VolumeBytes(ctx, v.Pool, v.Name, 0, length)
		if err != nil {
			return nil, err
		}
		if !bytes.Equal(data, make([]byte, len(data))) {
			return data, nil
		}
	}
	return nil, nil
}

// errNamed ends a download once the content is that of the name.
var errNamed = errors.New("it is the image")

// named reads content, and compares it with the checksum in the name of an image's copy. A device may be larger than
// the image, because its pool rounds sizes up: then it has the image up to one of its sectors.
type named struct {
	sum    hash.Hash
	digest []byte // the first bytes of the checksum
	length int
}

const sectorBytes = 512

func newNamed(volume string) *named {
	digest, _ := hex.DecodeString(volume[strings.LastIndex(volume, "-")+1:])
	return &named{sum: sha256.New(), digest: digest}
}

// is reports whether the content that was written until now has the checksum.
func (n *named) is() bool { return len(n.digest) > 0 && bytes.HasPrefix(n.sum.Sum(nil), n.digest) }

// Write returns errNamed at the end of the image.
func (n *named) Write(p []byte) (written int, err error) {
	for written < len(p) {
		part := p[written:min(len(p), written+sectorBytes-n.length%sectorBytes)]
		_, _ = n.sum.Write(part)
		n.length += len(part)
		written += len(part)
		if n.length%sectorBytes == 0 && n.is() {
			return written, errNamed
		}
	}
	return written, nil
}

// image returns the image that a volume is made from, nil if it is made from another volume, or from none.
func (d *Disk) image() *Ref {
	if ref := d.source(); ref != nil && ref.NamedByContent() && (d.Clone == nil || !d.CloneWritten) {
		return ref
	}
	return nil
}

// withSource reads the volume that a new one is made from, see complete, and creates the new one with create. Meanwhile
// no run sends or removes an image that the new volume is based on. A copy of an image doesn't keep others from the
// image while it is made, because it reads the file to the end even if that is removed.
func (s *Storage) withSource(
	ctx context.Context, h *libvirt.Host, d *Disk, pool string,
	create func(ctx context.Context, source *libvirt.Volume) error,
) error {
	image := d.image()
	if image == nil {
		source, err := s.complete(ctx, h, d, pool)
		if err != nil {
			return err
		}
		return create(ctx, source)
	}
	var source *libvirt.Volume
	err := s.locked(ctx, h.Name(), *image, "creating a volume from", func(ctx context.Context) (err error) {
		if source, err = s.complete(ctx, h, d, pool); err != nil || d.Overlay == nil {
			return err
		}
		return create(ctx, source)
	})
	if err != nil || d.Overlay != nil {
		return err
	}
	return create(ctx, source)
}

// refreshedVolume reads a volume of an active pool, and refreshes the pool once if it doesn't list the volume: a user
// may have copied the file there, or another host may have created it in a shared pool.
func refreshedVolume(ctx context.Context, h *libvirt.Host, ref Ref) (*libvirt.Volume, error) {
	v, err := h.PoolVolume(ctx, ref.Pool, ref.Name)
	if !errors.Is(err, libvirt.ErrNotFound) || errors.Is(err, libvirt.ErrNoPool) {
		return v, err
	}
	if err := refresh(ctx, h, ref.Pool); err != nil {
		return nil, err
	}
	return h.PoolVolume(ctx, ref.Pool, ref.Name)
}

// wholeCopy returns an image's copy on a host, and errIncomplete if a part of it is missing. libvirt may have looked at
// the file before it was whole, so its content decides.
func (s *Storage) wholeCopy(ctx context.Context, h *libvirt.Host, ref Ref) (*libvirt.Volume, error) {
	v, err := refreshedVolume(ctx, h, ref)
	if err != nil {
		return nil, err
	}
	begins, err := beginning(ctx, h, *v)
	if err != nil {
		return nil, err
	}
	switch whole, err := s.isWhole(ctx, h.Name(), *v, begins); {
	case err != nil:
		return nil, err
	case !whole:
		return nil, fmt.Errorf("%w: its upload to host %q was interrupted", errIncomplete, h.Name())
	case v.Format == "qcow2" || !bytes.HasPrefix(begins, []byte(qcow2Magic)):
		return v, nil
	}
	if err := s.settle(ctx, h, ref.Pool); err != nil {
		return nil, err
	}
	return h.PoolVolume(ctx, ref.Pool, ref.Name)
}
