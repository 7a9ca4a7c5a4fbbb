package storage

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// arrived returns the offset from which an interrupted upload can continue. The host must have computed the checksum of
// the incomplete copy, and it must be that of as much of the image, without the seal. Only files have such an offset:
// libvirt cuts a file off behind the first hole that is sent, and the seal is sent as a hole, so a file ends where the
// upload stopped.
func (s *Storage) arrived(
	ctx context.Context, h hostset.Host, left libvirt.Volume, image *Image,
) (from uint64, ok bool) {
	length := left.PhysicalBytes
	if h.SHA256 == nil || left.Type != "file" || length < libvirt.UploadChunk || length > image.Bytes {
		return 0, false
	}
	same, err := image.isUnsealed(ctx, h, left.Path, length)
	s.Log.Info("looking at an interrupted upload", "host", h.Name, "storage_pool", left.Pool, "volume", left.Name,
		"bytes", length, "continued", same, "error", err)
	return length / libvirt.UploadChunk * libvirt.UploadChunk, same
}

// resume sends what is missing of an interrupted upload.
func (s *Storage) resume(ctx context.Context, h hostset.Host, ref Ref, image *Image, from uint64) error {
	rest := Demand{Now: image.dataFrom(from), Growth: image.Bytes - from}
	if err := s.taking(ctx, h.Name, ref.Pool, rest, func(context.Context) error { return nil }); err != nil {
		return err
	}
	return s.send(ctx, h, ref, image, from)
}

// checkResumed has the host compute the checksum of a copy that lacks only its seal: the daemon may have written for
// the interrupted upload until now.
func (s *Storage) checkResumed(ctx context.Context, h hostset.Host, ref Ref, image *Image) error {
	v, err := h.Conn.PoolVolume(ctx, ref.Pool, ref.Name)
	if err != nil {
		return err
	}
	same, err := image.isUnsealed(ctx, h, v.Path, image.Bytes)
	if err == nil && !same {
		err = fmt.Errorf("%w: the copy of an interrupted upload that was continued isn't the image", ErrChecksum)
	}
	return err
}

// isUnsealed reports whether a file of the host is the image up to that length, without its seal.
func (i *Image) isUnsealed(ctx context.Context, h hostset.Host, path string, length uint64) (bool, error) {
	want, err := i.unsealedSum(ctx, length)
	if err != nil {
		return false, err
	}
	have, err := h.SHA256(ctx, path)
	return err == nil && have == want, err
}

// unsealedSum returns the SHA-256 of the image up to that length, with zeros in place of the seal.
func (i *Image) unsealedSum(ctx context.Context, length uint64) (string, error) {
	sum := sha256.New()
	buffer := make([]byte, libvirt.UploadChunk)
	for at := uint64(0); at < length; at += libvirt.UploadChunk {
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		data := buffer[:min(libvirt.UploadChunk, length-at)]
		if i.skips(at) {
			clear(data)
		} else if _, err := i.file.ReadAt(data, int64(at)); err != nil { //nolint:gosec // Files are smaller.
			return "", err
		}
		sum.Write(data)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// dataFrom returns how much is sent from an offset on, the seal included.
func (i *Image) dataFrom(offset uint64) (bytes uint64) {
	for at := offset; at < i.Bytes; at += libvirt.UploadChunk {
		if !i.skips(at) {
			bytes += min(libvirt.UploadChunk, i.Bytes-at)
		}
	}
	if i.Seal != nil {
		bytes += i.Seal.Bytes
	}
	return bytes
}
