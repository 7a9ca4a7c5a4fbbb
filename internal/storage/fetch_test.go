package storage_test

import (
	"bytes"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

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

// TestFetch_continues: a download whose connection breaks continues where it broke, if the server has the same file
// still. Otherwise it fails.
func TestFetch_continues(t *testing.T) {
	t.Parallel()
	data, sum := content(), sha256.Sum256(content())
	const half = 2 * libvirt.UploadChunk
	for name, test := range map[string]struct {
		first, then http.Header
		want        bool
	}{
		"by its ETag":        {http.Header{"Etag": {`"1"`}}, http.Header{"Etag": {`"1"`}}, true},
		"by its time":        {http.Header{"Last-Modified": {modified}}, http.Header{"Last-Modified": {modified}}, true},
		"another file":       {http.Header{"Etag": {`"1"`}}, http.Header{"Etag": {`"2"`}}, false},
		"perhaps another":    {http.Header{"Etag": {`W/"1"`}}, http.Header{"Etag": {`W/"1"`}}, false},
		"says nothing of it": {nil, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			requests, sent := 0, 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				requests++
				header := test.then
				if requests == 1 {
					header = test.first
				}
				maps.Copy(w.Header(), header)
				if requests == 1 {
					w.Header().Set("Content-Length", strconv.Itoa(len(data)))
					_, _ = w.Write(data[:half])
					panic(http.ErrAbortHandler)
				}
				changed, _ := time.Parse(http.TimeFormat, header.Get("Last-Modified"))
				http.ServeContent(counting{w, &sent}, r, "", changed, bytes.NewReader(data))
			}))
			t.Cleanup(server.Close)
			image, err := fetch(t, storage.Source{URL: server.URL})
			if (err == nil) != test.want {
				t.Fatalf("unexpected: %v", err)
			}
			if test.want && (image.SHA256 != hex.EncodeToString(sum[:]) || requests != 2 || sent >= len(data)) {
				t.Errorf("%d requests, %d bytes in the second one: %+v", requests, sent, image.ImageInfo)
			}
		})
	}
}

const modified = "Wed, 21 Oct 2015 07:28:00 GMT"

// counting counts what is written as a response.
type counting struct {
	http.ResponseWriter

	bytes *int
}

func (c counting) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p)
	*c.bytes += n
	return n, err
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
	_, err := fetch(t, storage.Source{URL: server.URL + "/cut"})
	cut, _ := errors.AsType[*storage.DownloadError](err)
	if !errors.Is(err, io.ErrUnexpectedEOF) || cut == nil || !cut.Cut || cut.URL != server.URL+"/cut" {
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

// TestFetch_truncated: an image that was cut off before it was put where it is fetched from isn't taken for a whole
// one. Nor is a whole one refused, whatever its layout.
func TestFetch_truncated(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("qemu-img"); err != nil {
		if os.Getenv("TF_ACC") != "" {
			t.Fatal(err)
		}
		t.Skip("this test needs qemu-img, which \"make test\" installs")
	}
	raw := filepath.Join(t.TempDir(), "raw")
	data := make([]byte, 6<<20)
	for i := range data[:4<<20] { // The end is a hole.
		data[i] = byte(i * i >> 7)
	}
	if err := os.WriteFile(raw, data, 0o600); err != nil {
		t.Fatal(err)
	}
	convert := func(args ...string) []byte {
		t.Helper()
		out := filepath.Join(t.TempDir(), "image")
		args = append(append([]string{"convert", "-f", "raw", "-O", "qcow2"}, args...), raw, out)
		if said, err := exec.CommandContext(t.Context(), "qemu-img", args...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, said)
		}
		whole, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		return whole
	}
	for name, args := range map[string][]string{
		"plain": nil, "compressed": {"-c"}, "version 2": {"-o", "compat=0.10"},
		"small clusters": {"-o", "cluster_size=512"},
		"preallocated":   {"-o", "preallocation=metadata"}, "extended": {"-o", "extended_l2=on,cluster_size=128k"},
	} {
		whole := convert(args...)
		if _, err := fetch(t, storage.Source{File: put(t, whole)}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, length := range []int{len(whole) / 2, 300 << 10} {
			_, err := fetch(t, storage.Source{File: put(t, whole[:length])})
			if !errors.Is(err, storage.ErrTruncated) || !strings.Contains(err.Error(), "image.iso") {
				t.Errorf("%s, %d of %d bytes: %v", name, length, len(whole), err)
			}
		}
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := fetch(t, storage.Source{File: put(t, packed.Bytes()[:packed.Len()/2])})
	if !errors.Is(err, storage.ErrTruncated) {
		t.Errorf("compressed data that ends early: %v", err)
	}
}

// fetchVariable names the URL that TestFetch_elsewhere fetches.
const fetchVariable = "VIRTFLEET_TEST_FETCH"

// TestFetch_elsewhere fetches what another test names in the environment. The directory for temporary files is its own,
// and has no file while the image is open: a process that is killed leaves none.
func TestFetch_elsewhere(t *testing.T) {
	t.Parallel()
	if from := os.Getenv(fetchVariable); from != "" {
		if _, err := fetch(t, storage.Source{URL: from}); err != nil {
			t.Fatal(err)
		}
		if files, err := os.ReadDir(os.TempDir()); err != nil || len(files) > 0 {
			t.Errorf("a killed process would leave %v: %v", files, err)
		}
	}
}

// fetchElsewhere fetches in another process: proxies and certificates of the environment are read once in each.
func fetchElsewhere(t *testing.T, url string, env ...string) error {
	t.Helper()
	fetching := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFetch_elsewhere$")
	fetching.Env = append(os.Environ(), append(env, fetchVariable+"="+url, "TMPDIR="+t.TempDir())...)
	out, err := fetching.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// TestFetch_throughAProxy: what the environment says of proxies holds.
func TestFetch_throughAProxy(t *testing.T) {
	t.Parallel()
	const url = "http://images.example.net/image.raw"
	asked := make(chan string, 1)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.String()
		_, _ = w.Write(content())
	}))
	t.Cleanup(proxy.Close)
	if err := fetchElsewhere(t, url, "HTTP_PROXY="+proxy.URL); err != nil {
		t.Fatal(err)
	}
	if got := <-asked; got != url {
		t.Errorf("the proxy was asked for %s", got)
	}
}

// TestFetch_https: a server is trusted if its certificate is from a CA that the environment names, directly and through
// a proxy, which sees no more than the name. The error for another server says what to do.
func TestFetch_https(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(content())
	}))
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0) // It would say that a client refuses it.
	server.StartTLS()
	t.Cleanup(server.Close)
	trusted := "SSL_CERT_FILE=" + put(t, pem.EncodeToMemory(&pem.Block{
		Type: "CERTIFICATE", Bytes: server.Certificate().Raw,
	}))
	asked := make(chan string, 1)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Method + " " + r.Host
		tunnel(w, r, server.Listener.Addr().String())
	}))
	t.Cleanup(proxy.Close)
	if err := fetchElsewhere(t, server.URL+"/image.raw", trusted); err != nil {
		t.Error(err)
	}
	// The server's certificate is for this name, too.
	if err := fetchElsewhere(t, "https://example.com/image.raw", trusted, "HTTPS_PROXY="+proxy.URL); err != nil {
		t.Fatal(err)
	}
	if got := <-asked; got != "CONNECT example.com:443" {
		t.Errorf("the proxy was asked for %s", got)
	}
	_, err := fetch(t, storage.Source{URL: server.URL + "/image.raw"})
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); !ok || !strings.Contains(err.Error(), "SSL_CERT_FILE") {
		t.Errorf("a server that isn't trusted: %v", err)
	}
}

// TestFetch_hidesSecrets: errors and log records of downloads have nothing of a URL that may be a secret: neither user,
// password nor values of the query, be it the URL of the image, of its checksums, or one that a server redirects to.
func TestFetch_hidesSecrets(t *testing.T) {
	t.Parallel()
	const secret = "s3cr3t"
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/elsewhere.raw":
			http.Redirect(w, r, gone.URL+"/stored.raw?X-Amz-Signature="+secret, http.StatusFound)
		case "/nowhere.raw":
			w.Header().Set("Location", "http://me:%zz"+secret+"@h/stored.raw?X-Amz-Signature="+secret)
			w.WriteHeader(http.StatusFound)
		case "/cut.raw":
			if asked.Add(1) > 1 { // It has changed since: the download can't be continued.
				_, _ = w.Write(content())
				return
			}
			w.Header().Set("ETag", `"one"`)
			w.Header().Set("Content-Length", strconv.Itoa(2*len(content())))
			_, _ = w.Write(content())
		case "/SHA256SUMS":
			_, _ = io.WriteString(w, "nothing\n")
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	user := strings.Replace(server.URL, "//", "//"+secret+"@", 1)
	both := strings.Replace(server.URL, "//", "//me:"+secret+"@", 1)
	const token = "?token=" + secret
	image, absent := server.URL+"/image.raw", server.URL+"/absent.raw"
	for name, c := range map[string]struct {
		url, sums, says string
	}{
		"an answer":        {url: absent + "?id=7&token=" + secret, says: "/absent.raw?id=xxxxx&token=xxxxx answers 404"},
		"a token alone":    {url: absent + "?" + secret, says: "/absent.raw?xxxxx answers 404"},
		"a user":           {url: user + "/absent.raw", says: "//xxxxx@"},
		"a password":       {url: both + "/absent.raw#" + secret, says: "/absent.raw answers 404"},
		"no server":        {url: gone.URL + "/image.raw" + token, says: "/image.raw?token=xxxxx"},
		"a redirect":       {url: server.URL + "/elsewhere.raw", says: "/stored.raw?X-Amz-Signature=xxxxx"},
		"to no URL":        {url: server.URL + "/nowhere.raw", says: "/nowhere.raw\": the server redirects to an invalid"},
		"no URL":           {url: "http://me:%zz" + secret + "@h/image.raw" + token, says: "invalid URL"},
		"checksums":        {url: image, sums: server.URL + "/SHA256SUMS" + token, says: "/SHA256SUMS?token=xxxxx names no"},
		"absent checksums": {url: image, sums: server.URL + "/absent" + token, says: "/absent?token=xxxxx answers 404"},
		"a cut download":   {url: server.URL + "/cut.raw" + token, says: "cut.raw"},
	} {
		var log bytes.Buffer
		_, err := storage.Fetch(t.Context(), storage.Source{URL: c.url, Checksum: c.sums},
			slog.New(slog.NewTextHandler(&log, nil)))
		if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", name, err)
		}
		if name == "a cut download" && !strings.Contains(log.String(), "/cut.raw?token=xxxxx") ||
			strings.Contains(log.String(), secret) {
			t.Errorf("the log of %s: %s", name, &log)
		}
	}
}

// TestSource_CheckAvailable: a server that refuses an image or its checksum file, and a file that isn't there, are
// found before the image is fetched. A server that can't be asked, or that doesn't send parts, isn't taken for one that
// refuses.
func TestSource_CheckAvailable(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/parts":
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content()))
		case "/whole":
			_, _ = w.Write(content())
		case "/empty":
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(nil))
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "image")
	if err := os.WriteFile(file, content(), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		source storage.Source
		want   error
	}{
		"parts":     {storage.Source{URL: server.URL + "/parts"}, nil},
		"whole":     {storage.Source{URL: server.URL + "/whole", Checksum: "sha256:00"}, nil},
		"empty":     {storage.Source{URL: server.URL + "/empty"}, nil},
		"no server": {storage.Source{URL: "http://127.0.0.1:1/parts"}, nil},
		"a file":    {storage.Source{File: file}, nil},
		"no file":   {storage.Source{File: file + "x"}, fs.ErrNotExist},
		"absent":    {storage.Source{URL: server.URL + "/absent"}, storage.ErrNotServed},
		"absent checksums": {
			storage.Source{URL: server.URL + "/parts", Checksum: server.URL + "/absent"}, storage.ErrNotServed,
		},
	} {
		if err := c.source.CheckAvailable(t.Context()); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// tunnel connects the client of a request with an address until both are done.
func tunnel(w http.ResponseWriter, r *http.Request, address string) {
	to, err := (&net.Dialer{}).DialContext(r.Context(), "tcp", address)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	w.WriteHeader(http.StatusOK)
	from, begun, err := http.NewResponseController(w).Hijack()
	if err != nil {
		_ = to.Close()
		return
	}
	// The server may have read the beginning of what the client sends after the header.
	go func() { _, _ = io.Copy(to, begun); _ = to.Close() }()
	_, _ = io.Copy(from, to)
	_ = from.Close()
}
