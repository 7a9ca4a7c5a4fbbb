package libvirt

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	golibvirt "libvirt.org/go/libvirt"
)

// ImageHeader is what the header of an image file says.
type ImageHeader struct {
	// QCOW2 says that the file is a qcow2 image. The other fields are only set for qcow2 images.
	QCOW2 bool
	// Backing is the backing file as named in the header, a path or anything else that QEMU understands; "" if there is
	// none. BackingFormat is the backing file's format, "" if the header doesn't say.
	Backing, BackingFormat string
}

// BackingPath returns the path of the backing file of the image at a path; "" if the backing file isn't a file of the
// host.
func (i *ImageHeader) BackingPath(at string) string {
	switch {
	case path.IsAbs(i.Backing):
		return i.Backing
	case strings.Contains(i.Backing, ":"):
		return "" // json:, nbd:, file: and others
	default:
		return path.Join(path.Dir(at), i.Backing)
	}
}

// ImageHeader reads the header of an image, which shows that the file exists and can be opened: libvirt describes
// storage pools and domains from what it remembers of a file, even after the file was removed. It returns ErrNotFound
// if no active pool knows the file, whether it exists or not, and ErrUnsupported if the header alone doesn't show
// whether the image can be opened (virStorageVolLookupByPath, virStorageVolDownload).
func (h *Host) ImageHeader(ctx context.Context, file string) (*ImageHeader, error) {
	s := monitorCall("reading the header of " + file)
	return callStorage(ctx, h, s, storage{}, func(c *conn) (_ *ImageHeader, err error) {
		c.countCall("virStorageVolLookupByPath")
		volume, err := c.c.LookupStorageVolByPath(file)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, volume.Free()) }()
		data, err := c.readHead(volume, headerSize)
		if err != nil {
			return nil, err
		}
		return parseHeader(data)
	})
}

// readHead reads that many bytes of a volume, or all of a shorter volume.
func (c *conn) readHead(volume *golibvirt.StorageVol, size uint64) (data []byte, err error) {
	stream, err := c.c.NewStream(0)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stream.Free()) }()
	c.countCall("virStorageVolDownload")
	if err := volume.Download(stream, 0, size, 0); err != nil {
		return nil, err
	}
	return receiveBytes(stream, size)
}

// receiveBytes reads a stream to its end.
func receiveBytes(stream *golibvirt.Stream, size uint64) (data []byte, err error) {
	for buffer := make([]byte, size); ; {
		n, err := stream.Recv(buffer)
		switch {
		case errors.Is(err, io.EOF):
			return data, stream.Finish()
		case err != nil:
			return nil, errors.Join(err, stream.Abort())
		}
		data = append(data, buffer[:max(n, 0)]...)
	}
}

// The offsets in a qcow2 image: its header, of 72 bytes in version 2, then extensions, then the name of its backing
// file. QEMU keeps all of them in the first cluster.
const (
	headerSize          = 64 << 10
	qcow2Magic          = "QFI\xfb"
	qcow2HeaderV2       = 72
	qcow2LengthAt       = 100 // the length of the header, from version 3 on
	qcow2Corrupt        = 1 << 1
	qcow2ExternalData   = 1 << 2
	qcow2BackingFormat  = 0xe2792aca
	qcow2ExtensionStart = 8
)

func parseHeader(data []byte) (*ImageHeader, error) {
	header := &ImageHeader{}
	if !bytes.HasPrefix(data, []byte(qcow2Magic)) {
		return header, nil
	}
	cut := fmt.Errorf("%w: a qcow2 image ends in its header", ErrInternal)
	if len(data) < qcow2HeaderV2 {
		return nil, cut
	}
	header.QCOW2 = true
	number := binary.BigEndian.Uint32
	length := uint32(qcow2HeaderV2)
	if number(data[4:]) > 2 {
		if len(data) < qcow2LengthAt+4 {
			return nil, cut
		}
		length = number(data[qcow2LengthAt:])
		if features := binary.BigEndian.Uint64(data[qcow2HeaderV2:]); features&qcow2Corrupt != 0 {
			return nil, fmt.Errorf("%w: QEMU has marked the image as corrupt", ErrUnsupported)
		} else if features&qcow2ExternalData != 0 {
			return nil, fmt.Errorf("%w: the image has its data in another file", ErrUnsupported)
		}
	}
	at, size := binary.BigEndian.Uint64(data[8:]), uint64(number(data[16:]))
	if at == 0 {
		return header, nil
	}
	if at > headerSize || at+size > uint64(len(data)) {
		return nil, cut
	}
	header.Backing = string(data[at : at+size])
	// An extension consists of its type, the length of its data, and the data, padded to eight bytes. Type 0 ends the
	// list.
	for rest := data[min(uint64(length), at):at]; len(rest) >= qcow2ExtensionStart && number(rest) != 0; {
		kind, size := number(rest), uint64(number(rest[4:]))
		rest = rest[qcow2ExtensionStart:]
		if size > uint64(len(rest)) {
			return nil, cut
		}
		if kind == qcow2BackingFormat {
			header.BackingFormat = string(rest[:size])
		}
		rest = rest[min((size+7)&^7, uint64(len(rest))):]
	}
	return header, nil
}
