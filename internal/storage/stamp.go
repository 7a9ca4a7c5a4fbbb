package storage

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"time"
)

// Stamp shows, without reading a local file, whether it may have been written to.
type Stamp struct {
	Size int64 `json:"size,omitempty"`
	// Time is the time of the last write, which a user can set back. Changed is the time of the last change of the file or
	// its metadata (ctime), which setting Time changes too, if the system reports it.
	Time    time.Time `json:"time"`
	Changed time.Time `json:"changed"`
}

// StampOf returns the stamp of a file.
func StampOf(file string) (Stamp, error) {
	info, err := os.Stat(file)
	if err != nil {
		return Stamp{}, err
	}
	return stampOf(info), nil
}

func stampOf(info os.FileInfo) Stamp {
	return Stamp{Size: info.Size(), Time: info.ModTime().UTC(), Changed: changeTime(info).UTC()}
}

// Same reports whether nothing of the file was changed.
func (s Stamp) Same(other Stamp) bool {
	return s.Size == other.Size && s.Time.Equal(other.Time) && s.Changed.Equal(other.Changed)
}

// FileSHA256 returns the SHA-256 of a local file's decompressed content, in hexadecimal, as ImageInfo has it.
func FileSHA256(ctx context.Context, file string) (sum string, err error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	in, err := newInput(untilDone{ctx, f}, nil)
	if err != nil {
		return "", err
	}
	digest := sha256.New()
	if _, err := io.Copy(digest, in.content); err != nil {
		return "", err
	}
	return hex.EncodeToString(digest.Sum(nil)), nil
}

// untilDone is a reader that ends when its context does.
type untilDone struct {
	ctx context.Context //nolint:containedctx // A reader can't be given one otherwise.
	io.Reader
}

func (r untilDone) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}
