package libvirt

import (
	"bytes"
	"context"
	"fmt"
	"io"

	golibvirt "libvirt.org/go/libvirt"
)

// UploadChunk is the unit that UploadVolume reads, sends and skips: the content of one message of a stream.
const UploadChunk = chunk

// noData is a chunk of zeros.
var noData [UploadChunk]byte

// Upload is content to write to a volume.
type Upload struct {
	Pool, Name string
	// Content is read from Offset on, Length bytes, and written to the same offset of the volume.
	Content        io.ReaderAt
	Offset, Length uint64
	// Skip reports whether the chunk at an offset is left as a hole, without being read. If nil, chunks are read, and left
	// as holes if they are all zeros.
	Skip func(offset uint64) bool
	// Progress is called with the number of bytes sent so far, holes included. It may be nil.
	Progress func(bytes uint64)
}

// UploadVolume writes to a volume. It sends skipped chunks as holes, so that sparse files stay sparse and only data is
// transferred. It has a connection of its own in addition to those that Config.MaxConnections allows, and returns nil
// when the daemon has written every byte. It stops when ctx ends; what was written stays.
//
// It uses virStorageVolUpload with a sparse stream, which exists since libvirt 3.4.
func (h *Host) UploadVolume(ctx context.Context, u Upload) error {
	return h.transferVolume(ctx, "uploading", volumeTransfer{
		pool: u.Pool, name: u.Name, call: "virStorageVolUpload", writes: true,
		begin: func(v *golibvirt.StorageVol, s *golibvirt.Stream) error {
			return v.Upload(s, u.Offset, 0, golibvirt.STORAGE_VOL_UPLOAD_SPARSE_STREAM)
		},
		content: u.sendContent,
	})
}

// sendContent sends the content chunk by chunk; it sends consecutive holes as one.
func (u Upload) sendContent(ctx context.Context, to *golibvirt.Stream) error {
	buffer := make([]byte, UploadChunk)
	hole := int64(0)
	endHole := func() (err error) {
		if hole > 0 {
			err = to.SendHole(hole, 0)
		}
		hole = 0
		return err
	}
	for sent := uint64(0); sent < u.Length; {
		if ctx.Err() != nil {
			return contextCause(ctx)
		}
		data := buffer[:min(UploadChunk, u.Length-sent)]
		isHole, err := u.next(data, sent)
		switch {
		case err != nil:
			return err
		case isHole:
			hole += int64(len(data))
		default:
			if err := endHole(); err != nil {
				return err
			}
			if err := sendAll(to, data); err != nil {
				return err
			}
		}
		sent += uint64(len(data))
		if u.Progress != nil {
			u.Progress(sent)
		}
	}
	return endHole()
}

// next reads the chunk after what was sent, unless it is left as a hole.
func (u Upload) next(data []byte, sent uint64) (isHole bool, err error) {
	at := u.Offset + sent
	if u.Skip != nil && u.Skip(at) {
		return true, nil
	}
	if n, err := u.Content.ReadAt(data, int64(at)); n < len(data) { //nolint:gosec // Files are smaller.
		return false, fmt.Errorf("%w: the content ends after %d of %d bytes: %w", ErrInternal, sent, u.Length, err)
	}
	return u.Skip == nil && bytes.Equal(data, noData[:len(data)]), nil
}

func sendAll(to *golibvirt.Stream, data []byte) error {
	for len(data) > 0 {
		n, err := to.Send(data)
		if err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}
