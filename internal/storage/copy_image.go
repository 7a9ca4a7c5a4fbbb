package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// CopyImage copies an image to a host from another host's copy, unless the host has a whole copy. It reads the copy to
// the operator's side first, checks it against its name, and sends it as Put does: an interrupted copy is never
// mistaken for the image.
func (s *Storage) CopyImage(ctx context.Context, from, to string, ref Ref) (err error) {
	h, err := s.host(from)
	if err != nil {
		return err
	}
	image, err := s.read(ctx, h, ref)
	if err != nil {
		return fmt.Errorf("reading image %s on host %q: %w", ref, from, err)
	}
	defer func() { err = errors.Join(err, image.Close()) }()
	if !strings.HasSuffix(ref.Name, "-"+image.SHA256[:12]) {
		return fmt.Errorf("%w: the copy of image %s on host %q has SHA-256 %s", ErrChecksum, ref, from, image.SHA256)
	}
	return s.Put(ctx, s.Hosts.Named(to), ref, image)[to]
}

var copySuffix = regexp.MustCompile(`^-[0-9a-f]{12}$`)

// SeenCopies returns the volumes of a host's pool that are named like copies of an image of that name. It uses what is
// known of the pool's volumes from the last reading of the host, and returns none if that can't be read.
func (s *Storage) SeenCopies(ctx context.Context, host, pool, name string) (copies []Ref) {
	h, ok := s.Hosts.Host(host)
	if !ok || h.Fenced {
		return nil
	}
	volumes, err := seenVolumes(h)(ctx, pool)
	if err != nil {
		s.Log.Debug("the copies of an image were not looked for", "host", host, "storage_pool", pool, "error", err)
	}
	for _, v := range volumes {
		if suffix, is := strings.CutPrefix(v.Name, name); is && copySuffix.MatchString(suffix) {
			copies = append(copies, Ref{Pool: pool, Name: v.Name})
		}
	}
	return copies
}

// read writes the content of a host's copy to a temporary file.
func (s *Storage) read(ctx context.Context, h *libvirt.Host, ref Ref) (_ *Image, err error) {
	v, err := h.PoolVolume(ctx, ref.Pool, ref.Name)
	if err != nil {
		return nil, err
	}
	image := &Image{}
	if err := image.createCopy(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, image.Close())
		}
	}()
	content, sent := io.Pipe()
	go func() { sent.CloseWithError(h.DownloadVolume(ctx, ref.Pool, ref.Name, sent)) }()
	p := newProgress(s.Log, "reading an image", "host", h.Name(), v.PhysicalBytes)
	if err := image.write(ctx, io.TeeReader(content, p), nil); err != nil {
		return nil, errors.Join(err, content.CloseWithError(err))
	}
	return image, nil
}
