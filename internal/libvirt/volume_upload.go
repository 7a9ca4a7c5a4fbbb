package libvirt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

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
	s := callSpec{operation: "uploading volume " + u.Pool + "/" + u.Name, timeout: migrateTimeout, late: ErrUnreachable}
	ctx, cancel := h.withDeadline(ctx, s)
	defer cancel()
	c, err := h.reserveConnection(ctx)
	if err != nil {
		return h.wrap(connectCall(s.operation), err, true)
	}
	defer c.retire()
	// The sending ends by itself between two messages, so the call is given up only if it doesn't.
	patience, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(closeTimeout, giveUp) })()
	_, lost, err := runOn(patience, c, func(c *conn) (struct{}, error) { return struct{}{}, c.uploadVolume(ctx, u) })
	if err != nil && ctx.Err() != nil && !errors.Is(err, ctx.Err()) {
		err = fmt.Errorf("%w: %w", contextCause(ctx), err)
	}
	return h.wrap(s, err, lost)
}

func (c *conn) uploadVolume(ctx context.Context, u Upload) (err error) {
	c.countCall("virStoragePoolLookupByName")
	pool, err := c.c.LookupStoragePoolByName(u.Pool)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pool.Free()) }()
	return c.withFile(pool, u.Name, func(volume *golibvirt.StorageVol) (err error) {
		raw, err := c.c.NewStream(0)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, raw.Free()) }()
		c.countCall("virStorageVolUpload")
		if err := volume.Upload(raw, u.Offset, 0, golibvirt.STORAGE_VOL_UPLOAD_SPARSE_STREAM); err != nil {
			return err
		}
		if err := u.sendContent(ctx, raw); err != nil {
			return errors.Join(err, raw.Abort())
		}
		// A failed write, for example on a full disk, may be reported only now.
		return raw.Finish()
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
