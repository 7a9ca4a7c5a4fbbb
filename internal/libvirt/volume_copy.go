package libvirt

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"path"
	"sync"
	"time"

	golibvirt "libvirt.org/go/libvirt"
)

const (
	// chunk is the size of a stream's message that every version of libvirt accepts.
	chunk = 256 << 10
	// readBackLimit is the size up to which a copy is read back and compared.
	readBackLimit = 16 << 20
)

// inHole is what the binding's RecvFlags returns in place of a number of bytes at a hole of a sparse file.
const inHole = -3

// CopyFile copies a file to the same path on another host, through this process: content, holes, permissions and the
// owner's ids. The directory must exist on the target. If the file exists there, CopyFile leaves it alone and returns
// ErrExists. made is called when the new file exists and was certainly created by this call, before anything is copied
// into it. From then on the caller has to remove the file (RemoveFile) if CopyFile fails; CopyFile also fails if made
// returns an error. Until content is copied, the new file is a hole with a length of empty bytes, at most the length of
// the source: the caller chooses that number and can recognise the file by it.
//
// It returns nil when the target's daemon has written every byte and reports the same length as the source's. A file of
// up to 16 MiB is also read back and compared by checksum.
//
// progress is called with the number of bytes copied so far, holes included, from another goroutine and never after
// CopyFile has returned. The copying ends when ctx ends; if a host doesn't answer then, the connection is given up.
//
// It uses virStorageVolDownload and virStorageVolUpload with sparse streams, which exist since libvirt 3.4, and has a
// connection of its own to either host in addition to those that Config.MaxConnections allows.
func (h *Host) CopyFile(
	ctx context.Context, file string, target *Host, empty uint64, made func() error, progress func(bytes uint64),
) error {
	s := callSpec{
		operation: fmt.Sprintf("copying %s to host %s", file, target.Name()), timeout: migrateTimeout, patient: true,
		late: ErrUnreachable, writes: true,
	}
	for _, side := range []*Host{h, target} {
		if err := side.verifyStorage(s, storage{}); err != nil {
			return err
		}
	}
	ctx, cancel := h.withDeadline(ctx, s)
	defer cancel()
	defer target.onClose(cancel)()
	x := &migrationCall{}
	if err := x.connectBoth(ctx, h, target, s, nil); err != nil {
		return err
	}
	defer x.from.retire()
	defer x.to.retire()
	defer x.to.countVolumeChange()
	if err := s.checkGuard(ctx); err != nil {
		x.from.endCall(true)
		x.to.endCall(true)
		return err
	}

	// The copying ends by itself between two messages, so the call is given up only if it doesn't.
	patience, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(closeTimeout, giveUp) })()
	reports := &copyReports{made: made, progress: progress}
	k := &fileCopy{
		spec: s, from: x.from, to: x.to, dir: path.Dir(file), name: path.Base(file), empty: empty,
		made: reports.fileMade, report: reports.addCopied,
	}
	_, _, err := runOn(patience, x.from, func(*conn) (struct{}, error) {
		err := k.copyFile(ctx)
		if errors.Is(err, errCopyAbandoned) {
			target.removeAbandoned(ctx, file)
		}
		return struct{}{}, err
	}, x.to)
	reports.stopReports()
	if err != nil && ctx.Err() != nil && !errors.Is(err, ctx.Err()) {
		err = fmt.Errorf("%w: %w", contextCause(ctx), err)
	}
	return h.wrap(s, err, false)
}

// copyReports calls the caller's functions while the caller waits for the copy.
type copyReports struct {
	made     func() error
	progress func(bytes uint64)

	mu    sync.Mutex
	ended bool
}

// errCopyAbandoned means that a file was created after its caller had stopped waiting.
var errCopyAbandoned = errors.New("the copying was given up before its file was made")

// fileMade reports that the file exists. It returns an error if the caller refuses the file or no longer waits.
func (r *copyReports) fileMade() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return errCopyAbandoned
	}
	if r.made == nil {
		return nil
	}
	return r.made()
}

// addCopied adds to the number of bytes copied and reports it.
func (r *copyReports) addCopied(bytes uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ended && r.progress != nil {
		r.progress(bytes)
	}
}

// stopReports waits for a report in progress and prevents further ones.
func (r *copyReports) stopReports() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
}

// removeAbandoned removes, in the background, an empty file whose caller has stopped waiting.
func (h *Host) removeAbandoned(ctx context.Context, file string) {
	h.background.Go(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), slowTimeout)
		defer cancel()
		if err := h.RemoveFile(ctx, file); err != nil {
			h.log.Warn("an empty file was left behind", "host", h.cfg.Name, "file", file, "error", err.Error())
		}
	})
}

// fileCopy is the copying of one file. Its errors say which of the two hosts they are about.
type fileCopy struct {
	spec      callSpec
	from, to  *conn
	dir, name string
	empty     uint64
	made      func() error
	report    func(bytes uint64)
}

func (k *fileCopy) copyFile(ctx context.Context) error {
	defer k.from.useDirectory(ctx, k.dir)()
	defer k.to.useDirectory(ctx, k.dir)()
	source, err := k.statFile(ctx, k.from)
	if err != nil {
		return err
	}
	made := *source
	made.Format = "raw" // Copy the bytes as they are, whatever they mean.
	made.PhysicalBytes = min(k.empty, source.PhysicalBytes)
	err = k.to.inDirectory(ctx, k.dir, func(pool *golibvirt.StoragePool) error { return k.to.createFile(pool, made) })
	if err != nil {
		return k.hostError(k.to, err)
	}
	if err := k.made(); err != nil {
		return err
	}
	sum, copied, err := k.copyContent(ctx, source.PhysicalBytes)
	if err != nil {
		return err
	}
	after, err := k.statFile(ctx, k.to)
	if err != nil {
		return err
	}
	if copied != source.PhysicalBytes || after.PhysicalBytes != copied {
		return fmt.Errorf("%w: of %d bytes %d were copied, and %d arrived", ErrInternal, source.PhysicalBytes, copied,
			after.PhysicalBytes)
	}
	if sum == "" {
		return nil
	}
	return k.verifyCopy(ctx, sum)
}

// hostError makes err an error of that connection's host.
func (k *fileCopy) hostError(c *conn, err error) error { return c.host.wrap(k.spec, err, c.isLost()) }

// statFile reads the file's description.
func (k *fileCopy) statFile(ctx context.Context, c *conn) (file *Volume, err error) {
	err = c.inDirectory(ctx, k.dir, func(pool *golibvirt.StoragePool) error {
		return c.withFile(pool, k.name, func(volume *golibvirt.StorageVol) (err error) {
			file, err = c.readVolume(volume)
			return err
		})
	})
	return file, k.hostError(c, err)
}

// copyContent copies the content and returns its length. It also returns the checksum if the file is small enough, by
// its approximate size, to be read back.
func (k *fileCopy) copyContent(ctx context.Context, size uint64) (sum string, copied uint64, err error) {
	in, err := k.openStream(ctx, k.from, "virStorageVolDownload", beginDownload)
	if err != nil {
		return "", 0, err
	}
	defer in.release()
	out, err := k.openStream(ctx, k.to, "virStorageVolUpload", beginUpload)
	if err != nil {
		return "", 0, err
	}
	defer out.release()
	var digest hash.Hash
	if size <= readBackLimit {
		digest = sha256.New()
	}
	copied, err = in.read(ctx, digest, out, k.report)
	if err != nil {
		return "", copied, err
	}
	// A failed write, for example on a full disk, may be reported only now.
	if err := out.finish(); err != nil {
		return "", copied, err
	}
	if digest != nil {
		sum = string(digest.Sum(nil))
	}
	return sum, copied, in.finish()
}

// verifyCopy reads the copy back and compares its checksum.
func (k *fileCopy) verifyCopy(ctx context.Context, sum string) error {
	back, err := k.openStream(ctx, k.to, "virStorageVolDownload", beginDownload)
	if err != nil {
		return err
	}
	defer back.release()
	digest := sha256.New()
	if _, err := back.read(ctx, digest, nil, func(uint64) {}); err != nil {
		return err
	}
	if err := back.finish(); err != nil {
		return err
	}
	if string(digest.Sum(nil)) != sum {
		return fmt.Errorf("%w: what was read back is not what was copied", ErrInternal)
	}
	return nil
}

func beginDownload(v *golibvirt.StorageVol, s *golibvirt.Stream) error {
	return v.Download(s, 0, 0, golibvirt.STORAGE_VOL_DOWNLOAD_SPARSE_STREAM)
}

func beginUpload(v *golibvirt.StorageVol, s *golibvirt.Stream) error {
	return v.Upload(s, 0, 0, golibvirt.STORAGE_VOL_UPLOAD_SPARSE_STREAM)
}

// stream transfers the content of a file from or to a host.
type stream struct {
	*golibvirt.Stream
	k    *fileCopy
	c    *conn
	over bool
}

// openStream opens a stream.
func (k *fileCopy) openStream(
	ctx context.Context, c *conn, procedure string, begin func(*golibvirt.StorageVol, *golibvirt.Stream) error,
) (*stream, error) {
	raw, err := c.c.NewStream(0)
	if err != nil {
		return nil, k.hostError(c, err)
	}
	err = c.inDirectory(ctx, k.dir, func(pool *golibvirt.StoragePool) error {
		return c.withFile(pool, k.name, func(volume *golibvirt.StorageVol) error {
			c.countCall(procedure)
			return begin(volume, raw)
		})
	})
	if err != nil {
		return nil, k.hostError(c, errors.Join(err, raw.Free()))
	}
	return &stream{Stream: raw, k: k, c: c}, nil
}

// finish waits until the host has processed everything.
func (s *stream) finish() error {
	s.over = true
	return s.k.hostError(s.c, s.Finish())
}

// release closes a stream that was not finished.
func (s *stream) release() {
	if !s.over {
		_ = s.Abort()
	}
	_ = s.Free()
}

// read reads the stream to its end, into a digest and into another stream, unless these are nil. A hole counts as the
// zeros that it stands for: on another filesystem it may not be a hole.
func (s *stream) read(
	ctx context.Context, digest hash.Hash, out *stream, report func(uint64),
) (total uint64, err error) {
	buffer := make([]byte, chunk)
	for {
		if ctx.Err() != nil {
			return total, contextCause(ctx)
		}
		n, err := s.RecvFlags(buffer, golibvirt.STREAM_RECV_STOP_AT_HOLE)
		switch {
		case errors.Is(err, io.EOF):
			return total, nil
		case err != nil:
			return total, s.k.hostError(s.c, err)
		case n == inHole:
			length, err := s.RecvHole(0)
			if err != nil {
				return total, s.k.hostError(s.c, err)
			}
			if digest != nil {
				_, _ = io.CopyN(digest, zeros{}, length)
			}
			if out != nil {
				if err := out.SendHole(length, 0); err != nil {
					return total, s.k.hostError(out.c, err)
				}
			}
			total += uint64(max(length, 0))
		case n < 0:
			return total, fmt.Errorf("%w: a stream has nothing to read, and doesn't wait", ErrInternal)
		default:
			if digest != nil {
				digest.Write(buffer[:n])
			}
			if out != nil {
				if err := out.write(buffer[:n]); err != nil {
					return total, err
				}
			}
			total += uint64(n) //nolint:gosec // It isn't negative.
		}
		report(total)
	}
}

func (s *stream) write(data []byte) error {
	for len(data) > 0 {
		n, err := s.Send(data)
		if err != nil {
			return s.k.hostError(s.c, err)
		}
		data = data[n:]
	}
	return nil
}

// zeros is an endless reader of zeros.
type zeros struct{}

// Read implements io.Reader.
func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// ReadAt implements io.ReaderAt.
func (zeros) ReadAt(p []byte, _ int64) (int, error) {
	clear(p)
	return len(p), nil
}
