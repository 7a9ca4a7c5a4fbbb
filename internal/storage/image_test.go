package storage

import (
	"bytes"
	"compress/gzip"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestImage_unchanged: a file that is read in place is found to be written to since its sum was made, and is left where
// it is. Of one that had to be decompressed there is a copy, which is removed.
func TestImage_unchanged(t *testing.T) {
	t.Parallel()
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write([]byte("content")); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		content []byte
		inPlace bool
	}{"plain": {[]byte("content"), true}, "packed": {packed.Bytes(), false}} {
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, tt.content, 0o600); err != nil {
			t.Fatal(err)
		}
		image, err := Fetch(t.Context(), Source{File: file}, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		if read := image.file.Name(); (read == file) != tt.inPlace {
			t.Errorf("%s is read from %s", name, read)
		}
		if err := image.unchanged(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		// Of the same length, and later: the clock of a file system may stop for some milliseconds.
		other := bytes.Repeat([]byte("x"), len(tt.content))
		later := time.Now().Add(time.Minute)
		if err := errors.Join(os.WriteFile(file, other, 0o600), os.Chtimes(file, later, later)); err != nil {
			t.Fatal(err)
		}
		if err := image.unchanged(); errors.Is(err, ErrChecksum) != tt.inPlace {
			t.Errorf("%s: once it is written to: %v", name, err)
		}
		if err := image.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(file); err != nil {
			t.Errorf("%s: the source is gone: %v", name, err)
		}
		if _, err := os.Stat(image.file.Name()); (err == nil) != tt.inPlace {
			t.Errorf("%s: of %s there is %v", name, image.file.Name(), err)
		}
	}
}

// TestDisk_document: of a raw volume in a pool of partitions libvirt is told no format, since raw is none that a
// partition table has.
func TestDisk_document(t *testing.T) {
	t.Parallel()
	for pool, want := range map[string]bool{"dir": true, "logical": true, "disk": false} {
		d := Disk{Pool: "p", Name: "sda1", Format: "raw", Bytes: 1}
		if got, err := d.document(pool, nil); err != nil || strings.Contains(got, `<format type="raw"/>`) != want {
			t.Errorf("%s: %s, %v", pool, got, err)
		}
	}
}
