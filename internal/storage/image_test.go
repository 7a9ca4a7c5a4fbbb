package storage

import (
	"bytes"
	"compress/gzip"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
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
// partition table has. In a volume group, libvirt is asked to allocate all of a volume: of less it would make a
// snapshot that loses its data once more is written to it.
func TestDisk_document(t *testing.T) {
	t.Parallel()
	for pool, tt := range map[string]struct{ format, thick bool }{
		"dir": {format: true}, "logical": {format: true, thick: true}, "zfs": {format: true}, "disk": {},
	} {
		d := Disk{Pool: "p", Name: "sda1", Format: "raw", Bytes: 1 << 30}
		allocation := "<allocation>0</allocation>"
		if tt.thick {
			allocation = "<allocation>1073741824</allocation>"
		}
		if _, err := (&Storage{}).complete(t.Context(), nil, &d, pool); err != nil {
			t.Fatal(err)
		}
		got, err := d.document(pool, nil)
		if err != nil || strings.Contains(got, `<format type="raw"/>`) != tt.format || !strings.Contains(got, allocation) {
			t.Errorf("%s: %s, %v; want %s", pool, got, err, allocation)
		}
		if need := d.need(nil); (need == d.Bytes) != tt.thick {
			t.Errorf("%s: it needs %d bytes", pool, need)
		}
		// What a killed run has left of it is recognized.
		left := libvirt.Volume{Format: "raw", CapacityBytes: d.Bytes, AllocationBytes: d.Bytes}
		if newBegun(d, nil).matches(left) != tt.thick {
			t.Errorf("%s: a volume that is allocated is taken for another one, or one with data for what was left", pool)
		}
	}
}

// TestMakeCopy_thick: a volume group has an image's copy with all its space, and the plan of a volume there counts all
// of it, although none of it has data.
func TestMakeCopy_thick(t *testing.T) {
	t.Parallel()
	const size = 60 << 30
	for pool, thick := range map[string]bool{"dir": false, "logical": true} {
		h := testHost(t, "h", pool)
		s := &Storage{Hosts: hostset.NewSet(h), Log: slog.New(slog.DiscardHandler)}
		image := &Image{ImageInfo: ImageInfo{Format: "raw", Bytes: size, CapacityBytes: size}}
		ref := Ref{Pool: "vms", Name: "base"}
		if err := s.makeCopy(t.Context(), h.Conn, ref, image); err != nil {
			t.Fatalf("%s: %v", pool, err)
		}
		v, err := h.Conn.PoolVolume(t.Context(), ref.Pool, ref.Name)
		if err != nil || (v.AllocationBytes == size) != thick {
			t.Errorf("%s: the copy is %+v, %v", pool, v, err)
		}
		if err := s.CheckRoom(t.Context(), "h", "vms", Demand{Growth: size}); errors.Is(err, ErrNoSpace) != thick {
			t.Errorf("%s: a second one: %v", pool, err)
		}
		ref.Name = "second"
		if err := s.makeCopy(t.Context(), h.Conn, ref, image); errors.Is(err, ErrNoSpace) != thick {
			t.Errorf("%s: a second image: %v", pool, err)
		}
	}
}

// TestImage_write_full: if the directory of the temporary file is full, the error says how to choose another one.
func TestImage_write_full(t *testing.T) {
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	image := Image{file: full}
	t.Cleanup(func() { _ = image.Close() })
	err = image.write(t.Context(), strings.NewReader("content"), nil)
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), `directory "/dev" on this computer`) ||
		!strings.Contains(err.Error(), "TMPDIR") {
		t.Errorf("writing to a full filesystem: %v", err)
	}
}
