package storage

import (
	"bufio"
	"bytes"
	"compress/bzip2"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"log/slog"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// ErrChecksum says that the fetched content has another checksum than the given one.
var ErrChecksum = errors.New("the checksum differs")

// Source is the source of an image.
type Source struct {
	// URL is http or https; File a path on the operator's side. Exactly one is set.
	URL, File string
	// Checksum is the checksum of the fetched file, before it is decompressed: "sha256:<hex>", "sha512:<hex>", or the URL
	// of a checksum file such as SHA256SUMS, which names the image. If "", nothing is checked.
	Checksum string
	// Accepts returns why an image of that format is of no use. It is called before the rest of the image is read. If it
	// is nil, every format is accepted.
	Accepts func(format string) error
}

// name returns the image's name in a checksum file.
func (s Source) name() string {
	if s.File != "" {
		return path.Base(s.File)
	}
	if u, err := url.Parse(s.URL); err == nil {
		return path.Base(u.Path)
	}
	return "the image"
}

// place returns where the image is, without what may be a secret.
func (s Source) place() string {
	if s.File != "" {
		return s.File
	}
	return redacted(s.URL)
}

// Image is the content of an image on the operator's side.
type Image struct {
	file *os.File
	// source describes a file on the operator's side as of when it was opened. Its content is read in place. Nil: file is
	// a copy.
	source os.FileInfo
	// named says that the copy's file has a name still, which Close removes.
	named bool
	// data says for each chunk whether it has a byte that isn't zero.
	data []bool
	// ImageInfo describe the content.
	ImageInfo
}

// ImageInfo are derived from the content of an image.
type ImageInfo struct {
	// SHA256 is the SHA-256 of the decompressed content.
	SHA256 string
	// Bytes is the content's length, DataBytes the part that isn't zeros, in units of libvirt.UploadChunk.
	Bytes, DataBytes uint64
	// Format is "qcow2" or "raw", CapacityBytes the size that a guest sees.
	Format        string
	CapacityBytes uint64
	// Seal is the chunk that is written to a copy last; nil if all content is zeros.
	Seal *Seal
}

// Seal is the first chunk of the content that isn't all zeros.
type Seal struct {
	Offset uint64 `json:"offset"`
	Bytes  uint64 `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// Volume returns the name of an image's copies.
func (f ImageInfo) Volume(name string) string { return name + "-" + f.SHA256[:12] }

var copyName = regexp.MustCompile(`^.+-[0-9a-f]{12}$`)

// IsCopyName reports whether a volume has a name that Volume returns.
func IsCopyName(volume string) bool { return copyName.MatchString(volume) }

// unchanged returns an error if a file that is read in place may no longer have the content of the checksum.
func (i *Image) unchanged() error {
	if i.source == nil {
		return nil
	}
	now, err := i.file.Stat()
	if err == nil && !stampOf(now).Same(stampOf(i.source)) {
		err = fmt.Errorf("%w: %s was written to while it was sent", ErrChecksum, i.file.Name())
	}
	return err
}

// Fetch reads an image, decompresses it according to its first bytes, checks it, and stores it in a temporary file,
// holes as holes. A file that isn't compressed stays where it is. Proxies are read from the environment.
func Fetch(ctx context.Context, s Source, log *slog.Logger) (_ *Image, err error) {
	sum, want, err := s.checksum(ctx)
	if err != nil {
		return nil, err
	}
	body, size, err := s.open(ctx, log)
	if err != nil {
		return nil, err
	}
	image := &Image{}
	defer func() {
		if image.source == nil {
			err = errors.Join(err, body.Close())
		}
	}()
	p := newProgress(log, "fetching an image", "source", s.name(), size)
	in, err := newInput(io.TeeReader(body, p), sum)
	if err != nil {
		return nil, err
	}
	if f, regular := body.(*sparseFile); regular && in.content == in.packed {
		image.file, image.source = f.File, f.info
	} else if err := image.createCopy(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, image.Close())
		}
	}()
	if err := image.write(ctx, in.content, s.Accepts); err != nil {
		_, cut := errors.AsType[*DownloadError](err)
		if !cut && in.content != in.packed && errors.Is(err, io.ErrUnexpectedEOF) {
			err = fmt.Errorf("%w: its compressed data ends early: %w", ErrTruncated, err)
		}
		return nil, fmt.Errorf("reading %s: %w", s.place(), err)
	}
	have, err := in.sumUp(image.SHA256)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", s.place(), err)
	}
	if sum != nil && have != want {
		return nil, fmt.Errorf("%w: %s has %s, expected is %s", ErrChecksum, s.name(), have, want)
	}
	return image, nil
}

// FileFormat reads the format of a local image from its header, and refuses what Fetch refuses because of the header.
// It returns "" for what isn't a regular file, which can be read only once. bytes is 0 for a compressed image.
func FileFormat(file string) (format string, bytes uint64, err error) {
	info, err := os.Stat(file)
	if err != nil || !info.Mode().IsRegular() {
		return "", 0, err
	}
	f, err := os.Open(file)
	if err != nil {
		return "", 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	in, err := newInput(f, nil)
	if err != nil {
		return "", 0, err
	}
	header := make([]byte, headerBytes)
	n, err := fill(in.content, header)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", 0, err
	}
	if in.content == in.packed {
		bytes = uint64(max(info.Size(), 0))
	}
	var image Image
	err = image.inspect(header[:n])
	return image.Format, bytes, err
}

// open opens the source. size is 0 if it is unknown.
func (s Source) open(ctx context.Context, log *slog.Logger) (body io.ReadCloser, size uint64, err error) {
	if s.File != "" {
		f, err := os.Open(s.File)
		if err != nil {
			return nil, 0, err
		}
		info, err := f.Stat()
		if err != nil {
			return nil, 0, errors.Join(err, f.Close())
		}
		if !info.Mode().IsRegular() {
			return f, 0, nil
		}
		return &sparseFile{File: f, info: info, size: info.Size()}, uint64(max(info.Size(), 0)), nil
	}
	resp, err := get(ctx, s.URL) //nolint:bodyclose // The download closes it.
	if err != nil {
		return nil, 0, err
	}
	return newDownload(ctx, s.URL, resp.Body, resp.Header, log), uint64(max(resp.ContentLength, 0)), nil
}

// input is the fetched data.
type input struct {
	// packed is the data as fetched, content the decompressed data.
	packed, content io.Reader
	// sum is the hash of packed; nil if that is the content's SHA-256, which is computed anyway.
	sum hash.Hash
}

// newInput reads the first bytes of the fetched data to find the compression. A nil sum is not computed.
func newInput(r io.Reader, sum hash.Hash) (in input, err error) {
	buffered := bufio.NewReaderSize(r, 64<<10)
	magic, err := buffered.Peek(6)
	if err != nil && !errors.Is(err, io.EOF) {
		return in, err
	}
	decompress := decompressor(magic)
	in.packed = buffered
	if sum != nil && (decompress != nil || sum.Size() != sha256.Size) {
		in.packed, in.sum = io.TeeReader(buffered, sum), sum
	}
	if decompress == nil {
		in.content = in.packed
		return in, nil
	}
	in.content, err = decompress(in.packed)
	return in, err
}

// sumUp returns the checksum after all content was read. content is the content's SHA-256.
func (in input) sumUp(content string) (string, error) {
	// The checksum also covers what follows the compressed content.
	if _, err := io.Copy(io.Discard, in.packed); err != nil || in.sum == nil {
		return content, err
	}
	return hex.EncodeToString(in.sum.Sum(nil)), nil
}

// decompressor returns the function that decompresses data with these first bytes, or nil if the data isn't compressed.
func decompressor(magic []byte) func(io.Reader) (io.Reader, error) {
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		return func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) }
	case bytes.HasPrefix(magic, []byte{0xfd, '7', 'z', 'X', 'Z', 0}):
		return func(r io.Reader) (io.Reader, error) { return xz.NewReader(r) }
	case bytes.HasPrefix(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		return func(r io.Reader) (io.Reader, error) { return zstd.NewReader(r, zstd.WithDecoderConcurrency(1)) }
	case bytes.HasPrefix(magic, []byte("BZh")):
		return func(r io.Reader) (io.Reader, error) { return bzip2.NewReader(r), nil }
	default:
		return nil
	}
}

// write copies the content to the file, unless it is read in place, and records its facts. accepts may be nil.
func (i *Image) write(ctx context.Context, content io.Reader, accepts func(format string) error) error {
	sum := sha256.New()
	buffer, zeros := make([]byte, libvirt.UploadChunk), make([]byte, libvirt.UploadChunk)
	for {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		n, err := fill(content, buffer)
		ended := errors.Is(err, io.EOF)
		if err != nil && !ended {
			return err
		}
		data := buffer[:n]
		if i.Bytes == 0 {
			if err := i.inspect(data); err != nil {
				return err
			}
			if accepts != nil {
				if err := accepts(i.Format); err != nil {
					return err
				}
			}
		}
		sum.Write(data)
		isData := !bytes.Equal(data, zeros[:n])
		i.data = append(i.data, isData)
		if isData {
			if i.Seal == nil {
				digest := sha256.Sum256(data)
				i.Seal = &Seal{Offset: i.Bytes, Bytes: uint64(n), SHA256: hex.EncodeToString(digest[:])}
			}
			if err := i.keep(data); err != nil {
				return err
			}
			i.DataBytes += uint64(n)
		}
		i.Bytes += uint64(n)
		if ended {
			i.SHA256 = hex.EncodeToString(sum.Sum(nil))
			return i.end()
		}
	}
}

// keep appends data to a copy.
func (i *Image) keep(data []byte) error {
	if i.source != nil {
		return nil
	}
	_, err := i.file.WriteAt(data, int64(i.Bytes)) //nolint:gosec // Files are smaller.
	return explainTemporary(filepath.Dir(i.file.Name()), err)
}

// end records the size of a raw image, and sets the length of a copy, which may end in a hole.
func (i *Image) end() error {
	if i.Bytes == 0 {
		return fmt.Errorf("%w: the image is empty", libvirt.ErrInvalid)
	}
	if i.Format == "raw" {
		i.CapacityBytes = i.Bytes
	}
	if i.source == nil {
		if err := i.file.Truncate(int64(i.Bytes)); err != nil { //nolint:gosec // Files are smaller.
			return err
		}
	}
	if i.Format != "qcow2" {
		return nil
	}
	return qcow2File{ReaderAt: i.file, length: i.Bytes}.checkEnd()
}

// skips reports whether a chunk isn't sent with the others: a chunk of zeros, or the seal.
func (i *Image) skips(offset uint64) bool {
	return !i.data[offset/libvirt.UploadChunk] || i.Seal != nil && offset == i.Seal.Offset
}

// fill reads until the buffer is full. Unlike io.ReadFull it distinguishes the end of a stream, io.EOF, from a stream
// that was cut, io.ErrUnexpectedEOF.
func fill(r io.Reader, buffer []byte) (n int, err error) {
	for n < len(buffer) && err == nil {
		var m int
		m, err = r.Read(buffer[n:])
		n += m
	}
	return n, err
}

// headerBytes is how much of the content inspect reads.
const headerBytes = 64 << 10

// inspect reads the format, and the size of a qcow2 image, from the beginning of the content. It refuses content that
// would make a host read other files.
func (i *Image) inspect(data []byte) error {
	data = data[:min(len(data), headerBytes)]
	i.Format = "raw"
	for magic, format := range map[string]string{
		"KDMV": "vmdk", "# Disk DescriptorFile": "vmdk", "vhdxfile": "vhdx", "conectix": "vpc", "<<< ": "vdi",
		"QED\x00": "qed",
	} {
		if bytes.HasPrefix(data, []byte(magic)) {
			return fmt.Errorf("%w: the image is of format %s; convert it to qcow2 or raw with qemu-img convert",
				libvirt.ErrUnsupported, format)
		}
	}
	if isPage(data) {
		return fmt.Errorf("%w: the content is an HTML page, which begins with %q", ErrNoImage, firstLine(data))
	}
	header, err := libvirt.InspectImage(data)
	switch {
	case err != nil:
		return err
	case header.QCOW2 && header.Backing != "":
		return fmt.Errorf("%w: the image is based on %s, which a host would read; flatten it with qemu-img convert",
			libvirt.ErrInvalid, strconv.Quote(header.Backing))
	case header.QCOW2:
		i.Format, i.CapacityBytes = "qcow2", header.CapacityBytes
	}
	return nil
}

// newHash returns the hash for a checksum of which only the length is known.
func newHash(hexSum string) (func() hash.Hash, bool) {
	h, ok := hashes[len(hexSum)]
	if _, err := hex.DecodeString(hexSum); err != nil {
		return nil, false
	}
	return h, ok
}
