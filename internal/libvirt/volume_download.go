package libvirt

import (
	"context"
	"errors"
	"fmt"
	"io"

	golibvirt "libvirt.org/go/libvirt"
)

// DownloadVolume writes the whole content of a volume, holes as zeros, to a writer. It stops if the writer returns an
// error or ctx ends. It has a connection of its own in addition to those that Config.MaxConnections allows.
//
// It uses virStorageVolDownload with a sparse stream, which exists since libvirt 3.4.
func (h *Host) DownloadVolume(ctx context.Context, pool, name string, to io.Writer) error {
	return h.transferVolume(ctx, "downloading", volumeTransfer{
		pool: pool, name: name, call: "virStorageVolDownload", begin: beginDownload,
		content: func(ctx context.Context, s *golibvirt.Stream) error { return receiveAll(ctx, s, to) },
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
