package storage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// ErrTruncated says that an image lacks its end, so that a guest would read zeros or errors in place of its data.
var ErrTruncated = fmt.Errorf("%w: the image was cut off", libvirt.ErrInvalid)

// Parts of a qcow2 image, as QEMU's docs/interop/qcow2.rst describes them.
const (
	qcow2Offset     = 0x00fffffffffffe00 // the bits of an entry that are an offset
	qcow2Compressed = 1 << 62
	qcow2Zeros      = 1 // in an entry of an L2 table: the cluster reads as zeros
	qcow2Extended   = 1 << 4
	qcow2MaxTable   = 32 << 20 // QEMU refuses larger tables.
	qcow2HeaderEnd  = 104
)

// qcow2File is a qcow2 image whose tables are read.
type qcow2File struct {
	io.ReaderAt

	length uint64
}

// checkEnd returns ErrTruncated if tables or data of a qcow2 image begin at the end of the file or behind it. What ends
// there is left alone: QEMU reads zeros behind the end, and doesn't write the last ones of a file.
func (q qcow2File) checkEnd() error {
	header := make([]byte, qcow2HeaderEnd)
	if n, err := q.ReadAt(header, 0); err != nil && !errors.Is(err, io.EOF) {
		return err
	} else if n < qcow2HeaderEnd {
		return nil
	}
	word, number := binary.BigEndian.Uint64, binary.BigEndian.Uint32
	bits, entry := number(header[20:]), uint64(8)
	if bits < 9 || bits > 21 {
		return fmt.Errorf("%w: a qcow2 image has clusters of 2^%d bytes", libvirt.ErrInvalid, bits)
	}
	if number(header[4:]) > 2 && word(header[72:])&qcow2Extended != 0 {
		entry = 16
	}
	refcounts, err := q.table("refcounts", word(header[48:]), uint64(number(header[56:]))<<bits, 8)
	if err != nil {
		return err
	}
	for _, block := range refcounts {
		if err := q.has("refcounts", block&qcow2Offset); err != nil {
			return err
		}
	}
	tables, err := q.table("L1 table", word(header[40:]), uint64(number(header[36:]))*8, 8)
	if err != nil {
		return err
	}
	for _, at := range tables {
		clusters, err := q.table("L2 tables", at&qcow2Offset, 1<<bits, entry)
		if err != nil {
			return err
		}
		for _, cluster := range clusters {
			switch {
			case cluster&qcow2Compressed != 0:
				cluster &= 1<<(62-(bits-8)) - 1
			case cluster&qcow2Zeros != 0:
				continue
			default:
				cluster &= qcow2Offset
			}
			if err := q.has("data", cluster); err != nil {
				return err
			}
		}
	}
	return nil
}

// table reads the entries of a table, of which each has that many bytes and begins with a number. It returns nil for a
// table that the image doesn't have.
func (q qcow2File) table(what string, at, size, entry uint64) (entries []uint64, err error) {
	if at == 0 || size == 0 {
		return nil, nil
	}
	if err := q.has(what, at); err != nil {
		return nil, err
	}
	data := make([]byte, min(size, qcow2MaxTable, q.length-at))
	if _, err := q.ReadAt(data, int64(at)); err != nil && !errors.Is(err, io.EOF) { //nolint:gosec // Files are smaller.
		return nil, err
	}
	for ; uint64(len(data)) >= entry; data = data[entry:] {
		entries = append(entries, binary.BigEndian.Uint64(data))
	}
	return entries, nil
}

// has returns ErrTruncated for what begins behind the end of the file.
func (q qcow2File) has(what string, at uint64) error {
	if at == 0 || at < q.length {
		return nil
	}
	return fmt.Errorf("%w: it has %d bytes, and ends before its %s at byte %d", ErrTruncated, q.length, what, at)
}
