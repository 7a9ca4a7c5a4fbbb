package storage_test

import (
	"bytes"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

func fetch(t *testing.T, s storage.Source) (*storage.Image, error) {
	t.Helper()
	image, err := storage.Fetch(t.Context(), s, slog.New(slog.DiscardHandler))
	if err == nil {
		t.Cleanup(func() { _ = image.Close() })
	}
	return image, err
}

func put(t *testing.T, data []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "image.iso") // The name says nothing.
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// content is a hole, data that begins in the midst of a chunk, and another hole.
func content() []byte {
	data := make([]byte, 3*libvirt.UploadChunk+100)
	copy(data[libvirt.UploadChunk+5000:], bytes.Repeat([]byte("content"), 1000))
	return data
}

// packedByBzip2 is content, packed by bzip2, for which Go has no writer.
const packedByBzip2 = "QlpoOTFBWSZTWYVuxjkABBfDoMAAACAKAYQAAAgACCAAcEGTECaqQxqYEqrzSqh30SCrQoM1Ug5UgypB2pBlUg4qAvxd" +
	"yRThQkIVuxjk"

// TestFetch_decompresses: by what is in the file, whatever its name; the seal is the first chunk that isn't zeros.
func TestFetch_decompresses(t *testing.T) {
	t.Parallel()
	data := content()
	sum := sha256.Sum256(data)
	pack := func(open func(io.Writer) (io.WriteCloser, error)) []byte {
		var b bytes.Buffer
		w, err := open(&b)
		if err == nil {
			_, err = w.Write(data)
		}
		if err = errors.Join(err, w.Close()); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	bzip2, err := base64.StdEncoding.DecodeString(packedByBzip2)
	if err != nil {
		t.Fatal(err)
	}
	for name, file := range map[string][]byte{
		"plain": data,
		"bzip2": bzip2,
		"gzip":  pack(func(w io.Writer) (io.WriteCloser, error) { return gzip.NewWriter(w), nil }),
		"zstd":  pack(func(w io.Writer) (io.WriteCloser, error) { return zstd.NewWriter(w) }),
		"xz":    pack(func(w io.Writer) (io.WriteCloser, error) { return xz.NewWriter(w) }),
	} {
		packed := sha256.Sum256(file)
		image, err := fetch(t, storage.Source{
			File: put(t, file), Checksum: "sha256:" + hex.EncodeToString(packed[:]),
		})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if image.SHA256 != hex.EncodeToString(sum[:]) || image.Bytes != uint64(len(data)) || image.Format != "raw" ||
			image.DataBytes != libvirt.UploadChunk || image.Seal == nil || image.Seal.Offset != libvirt.UploadChunk {
			t.Errorf("%s: %+v", name, image.ImageInfo)
		}
		if name != "plain" {
			if _, err := fetch(t, storage.Source{File: put(t, file[:len(file)-9])}); err == nil {
				t.Errorf("%s: what was cut is taken for whole", name)
			}
		}
	}
}

// TestFetch_sparse: the holes of a file are zeros of its content, wherever they begin and end.
func TestFetch_sparse(t *testing.T) {
	t.Parallel()
	const page = 4 << 10
	for name, at := range map[string][]int64{
		"nothing": {}, "the begin": {0}, "the end": {5*libvirt.UploadChunk + page},
		"both ends": {0, 5*libvirt.UploadChunk + page},
		"between":   {libvirt.UploadChunk - page, 3*libvirt.UploadChunk + 7*page},
	} {
		file := put(t, nil)
		f, err := os.OpenFile(file, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, offset := range at {
			if _, err = f.WriteAt([]byte("content"), offset); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(f.Truncate(5*libvirt.UploadChunk+page+100), f.Close()); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		sum, long := sha256.Sum256(data), sha512.Sum512(data)
		for _, checksum := range []string{
			"", "sha256:" + hex.EncodeToString(sum[:]), "sha512:" + hex.EncodeToString(long[:]),
		} {
			image, err := fetch(t, storage.Source{File: file, Checksum: checksum})
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if image.SHA256 != hex.EncodeToString(sum[:]) || image.Bytes != uint64(len(data)) ||
				image.DataBytes > uint64(len(at)*libvirt.UploadChunk) || (image.Seal == nil) != (len(at) == 0) {
				t.Errorf("%s: %+v", name, image.ImageInfo)
			}
		}
	}
}

// TestFetch_checks: a sum that differs, a connection that ends early and a server that has no such file are errors, and
// a file of sums is read in each of its forms.
func TestFetch_checks(t *testing.T) {
	t.Parallel()
	data := content()
	sum := sha256.Sum256(data)
	digits := hex.EncodeToString(sum[:])
	sums := map[string]string{
		"/coreutils": digits + "  image.raw\n", "/binary": "\n" + digits + " *image.raw\n",
		"/bsd": "# made\nSHA256 (image.raw) = " + digits + "\n", "/none": digits + "  image.raw.asc\n",
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch text, ok := sums[r.URL.Path]; {
		case ok:
			_, _ = io.WriteString(w, text)
		case r.URL.Path == "/image.raw":
			_, _ = w.Write(data)
		case r.URL.Path == "/cut":
			w.Header().Set("Content-Length", strconv.Itoa(len(data)+1))
			_, _ = w.Write(data)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	for path := range sums {
		_, err := fetch(t, storage.Source{URL: server.URL + "/image.raw", Checksum: server.URL + path})
		if (err != nil) != (path == "/none") {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, err := fetch(t, storage.Source{URL: server.URL + "/cut"}); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a connection that ends early: %v", err)
	}
	if _, err := fetch(t, storage.Source{URL: server.URL + "/absent"}); err == nil {
		t.Error("what isn't there was fetched")
	}
	wrong := storage.Source{URL: server.URL + "/image.raw", Checksum: "sha256:" + hex.EncodeToString(make([]byte, 32))}
	if _, err := fetch(t, wrong); !errors.Is(err, storage.ErrChecksum) {
		t.Errorf("a sum that differs: %v", err)
	}
	for _, bad := range []string{"md5:abc", "sha256:abc", "sha512:" + digits, digits} {
		if storage.CheckChecksum(bad) == nil {
			t.Errorf("%s is taken for a checksum", bad)
		}
	}
}

// TestFetch_throughAProxy: what the environment says of proxies holds. net/http reads it once, so another process
// fetches.
func TestFetch_throughAProxy(t *testing.T) {
	t.Parallel()
	const variable, url = "VIRTFLEET_TEST_FETCH", "http://images.example.net/image.raw"
	if from := os.Getenv(variable); from != "" {
		if _, err := fetch(t, storage.Source{URL: from}); err != nil {
			t.Fatal(err)
		}
		return
	}
	asked := make(chan string, 1)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.String()
		_, _ = w.Write(content())
	}))
	t.Cleanup(proxy.Close)
	fetching := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	fetching.Env = append(os.Environ(), variable+"="+url, "HTTP_PROXY="+proxy.URL)
	if out, err := fetching.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got := <-asked; got != url {
		t.Errorf("the proxy was asked for %s", got)
	}
}
