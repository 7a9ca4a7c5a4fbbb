package libvirt

import (
	"context"
	"errors"
	"fmt"
	"time"

	golibvirt "libvirt.org/go/libvirt"
)

// volumeTransfer is the content of a volume on its way to or from the host.
type volumeTransfer struct {
	pool, name string
	// call is the libvirt function that begin calls. begin connects the volume with the stream.
	call string
	// writes says that the transfer changes the volume.
	writes bool
	begin  func(*golibvirt.StorageVol, *golibvirt.Stream) error
	// content sends or receives everything. It stops between two messages when ctx ends.
	content func(ctx context.Context, s *golibvirt.Stream) error
}

// transferVolume sends or receives the content of a volume over a connection of its own.
func (h *Host) transferVolume(ctx context.Context, verb string, t volumeTransfer) error {
	s := callSpec{
		operation: verb + " volume " + t.pool + "/" + t.name, timeout: migrateTimeout, late: ErrUnreachable, writes: t.writes,
	}
	if err := h.verifyStorage(s, storage{pool: t.pool, files: true}); err != nil {
		return err
	}
	ctx, cancel := h.withDeadline(ctx, s)
	defer cancel()
	c, err := h.reserveConnection(ctx)
	if err != nil {
		return h.wrap(connectCall(s.operation), err, true)
	}
	defer c.retire()
	if err := s.checkGuard(ctx); err != nil {
		c.endCall(true)
		return err
	}
	defer c.countVolumeChange()
	// A cancelled transfer ends by itself after the message that it is sending. If it doesn't end within closeTimeout,
	// the call is given up.
	patience, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(closeTimeout, giveUp) })()
	_, lost, err := runOn(patience, c, func(c *conn) (struct{}, error) { return struct{}{}, c.transferVolume(ctx, t) })
	if err != nil && ctx.Err() != nil && !errors.Is(err, ctx.Err()) {
		err = fmt.Errorf("%w: %w", contextCause(ctx), err)
	}
	return h.wrap(s, err, lost)
}

func (c *conn) transferVolume(ctx context.Context, t volumeTransfer) (err error) {
	c.countCall("virStoragePoolLookupByName")
	pool, err := c.c.LookupStoragePoolByName(t.pool)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pool.Free()) }()
	return c.withFile(pool, t.name, func(volume *golibvirt.StorageVol) (err error) {
		stream, err := c.c.NewStream(0)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, stream.Free()) }()
		c.countCall(t.call)
		if err := t.begin(volume, stream); err != nil {
			return err
		}
		if err := t.content(ctx, stream); err != nil {
			return errors.Join(err, stream.Abort())
		}
		// A failed write, for example on a full disk, may be reported only now.
		return stream.Finish()
	})
}
