package storage

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

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
