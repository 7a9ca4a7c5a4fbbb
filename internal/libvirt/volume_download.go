package libvirt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	golibvirt "libvirt.org/go/libvirt"
)

// DownloadVolume writes the whole content of a volume, holes as zeros, to a writer. It stops if the writer returns an
// error or ctx ends. It has a connection of its own in addition to those that Config.MaxConnections allows.
//
// It uses virStorageVolDownload with a sparse stream, which exists since libvirt 3.4.
func (h *Host) DownloadVolume(ctx context.Context, pool, name string, to io.Writer) error {
	s := callSpec{operation: "downloading volume " + pool + "/" + name, timeout: migrateTimeout, late: ErrUnreachable}
	ctx, cancel := h.withDeadline(ctx, s)
	defer cancel()
	c, err := h.reserveConnection(ctx)
	if err != nil {
		return h.wrap(connectCall(s.operation), err, true)
	}
	defer c.retire()
	// The reading ends by itself between two messages, so the call is given up only if it doesn't.
	patience, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(closeTimeout, giveUp) })()
	_, lost, err := runOn(patience, c, func(c *conn) (struct{}, error) {
		return struct{}{}, c.downloadVolume(ctx, pool, name, to)
	})
	if err != nil && ctx.Err() != nil && !errors.Is(err, ctx.Err()) {
		err = fmt.Errorf("%w: %w", contextCause(ctx), err)
	}
	return h.wrap(s, err, lost)
}

func (c *conn) downloadVolume(ctx context.Context, pool, name string, to io.Writer) (err error) {
	c.countCall("virStoragePoolLookupByName")
	p, err := c.c.LookupStoragePoolByName(pool)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Free()) }()
	return c.withFile(p, name, func(volume *golibvirt.StorageVol) (err error) {
		raw, err := c.c.NewStream(0)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, raw.Free()) }()
		c.countCall("virStorageVolDownload")
		if err := beginDownload(volume, raw); err != nil {
			return err
		}
		if err := receiveAll(ctx, raw, to); err != nil {
			return errors.Join(err, raw.Abort())
		}
		return raw.Finish()
	})
}

// receiveAll reads a sparse stream to its end.
func receiveAll(ctx context.Context, from *golibvirt.Stream, to io.Writer) error {
	buffer := make([]byte, chunk)
	for ctx.Err() == nil {
		n, err := from.RecvFlags(buffer, golibvirt.STREAM_RECV_STOP_AT_HOLE)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case n == inHole:
			length, err := from.RecvHole(0)
			if err != nil {
				return err
			}
			if _, err := io.CopyN(to, zeros{}, length); err != nil {
				return err
			}
		case n < 0:
			return fmt.Errorf("%w: a stream has nothing to read, and doesn't wait", ErrInternal)
		default:
			if _, err := to.Write(buffer[:n]); err != nil {
				return err
			}
		}
	}
	if ctx.Err() != nil {
		return contextCause(ctx)
	}
	return nil
}
