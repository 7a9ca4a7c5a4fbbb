package storage

import (
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

// FileSHA256 returns the SHA-256 of a file as it is, in hexadecimal.
func FileSHA256(file string) (sum string, err error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	digest := sha256.New()
	if _, err := io.Copy(digest, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(digest.Sum(nil)), nil
}
