package storage

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// FileData returns how much of a local file isn't zeros, in units of libvirt.UploadChunk: what its copy occupies at
// once in a pool of files. It reads the file, except for its holes.
func FileData(ctx context.Context, file string) (data uint64, err error) {
	opened, err := os.Open(file)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	info, err := opened.Stat()
	if err != nil {
		return 0, err
	}
	f := &sparseFile{File: opened, info: info, size: info.Size()}
	buffer, zeros := make([]byte, libvirt.UploadChunk), make([]byte, libvirt.UploadChunk)
	for f.at < f.size && ctx.Err() == nil {
		if f.findData(); f.data >= f.size {
			break
		}
		f.at = f.data - f.data%libvirt.UploadChunk
		n, err := f.ReadAt(buffer, f.at)
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		if !bytes.Equal(buffer[:n], zeros[:n]) {
			data += uint64(n)
		}
		f.at += libvirt.UploadChunk
	}
	return data, context.Cause(ctx)
}

// sparseFile reads a regular file. Holes that the file system reports are returned as zeros without being read.
type sparseFile struct {
	*os.File
	// info describes the file as of when it was opened.
	info     os.FileInfo
	size, at int64
	// data and hole are the beginning and the end of the data at or after at.
	data, hole int64
}

// Read returns the data that follows.
func (f *sparseFile) Read(p []byte) (int, error) {
	if f.at >= f.size {
		return 0, io.EOF
	}
	if f.at >= f.hole {
		f.findData()
	}
	if f.at < f.data {
		n := min(int64(len(p)), f.data-f.at)
		clear(p[:n])
		f.at += n
		return int(n), nil
	}
	n, err := f.ReadAt(p[:min(int64(len(p)), f.hole-f.at)], f.at)
	f.at += int64(n)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF // The file became shorter.
	}
	return n, err
}

// findData looks for the next data. If the file system can't report holes, everything is data.
func (f *sparseFile) findData() {
	f.data, f.hole = f.at, f.size
	data, err := f.Seek(f.at, unix.SEEK_DATA)
	if errors.Is(err, unix.ENXIO) {
		f.data = f.size
	}
	if err != nil {
		return
	}
	f.data = min(data, f.size)
	if hole, err := f.Seek(data, unix.SEEK_HOLE); err == nil {
		f.hole = min(hole, f.size)
	}
}
