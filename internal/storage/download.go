package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"
)

// downloadTries is how often a download is continued without having received anything in between, and downloadPause how
// long it waits before it is continued for the first time. Each further wait is twice as long.
const (
	downloadTries = 5
	downloadPause = time.Second
)

// download reads a file from a server. If the connection breaks, it requests the rest, provided that the server says
// how to recognize that the file is still the same (RFC 9110, If-Range).
type download struct {
	ctx  context.Context //nolint:containedctx // An io.Reader gets none.
	log  *slog.Logger
	from string
	body io.ReadCloser
	// same is the ETag or the time of the last change of the file. If "", the download can't be continued.
	same string
	at   int64
	// tries counts how often it was continued since it last received something.
	tries int
}

func newDownload(
	ctx context.Context, from string, body io.ReadCloser, header http.Header, log *slog.Logger,
) *download {
	d := &download{ctx: ctx, log: log, from: from, body: body, same: header.Get("ETag")}
	if d.same == "" || strings.HasPrefix(d.same, "W/") { // A weak ETag doesn't say that every byte is the same.
		d.same = header.Get("Last-Modified")
	}
	return d
}

// Read returns the data that follows.
func (d *download) Read(p []byte) (int, error) {
	for {
		n, err := d.body.Read(p)
		if n > 0 {
			d.at, d.tries = d.at+int64(n), 0
			if !errors.Is(err, io.EOF) {
				err = nil // The next Read returns it again.
			}
			return n, err
		}
		if err == nil || errors.Is(err, io.EOF) {
			return 0, err
		}
		if d.same != "" {
			err = d.resume(err)
		}
		if err != nil {
			return 0, unsent(d.ctx, d.from, true, err)
		}
	}
}

// resume requests what follows after the connection broke. It returns why that isn't possible.
func (d *download) resume(cause error) error {
	for ; d.tries < downloadTries; d.tries++ {
		d.log.Warn("a download was cut", "source", redacted(d.from), "bytes", d.at, "error", cause)
		select {
		case <-d.ctx.Done():
			return cause
		case <-time.After(downloadPause << d.tries):
		}
		rest := http.Header{}
		rest.Set("Range", fmt.Sprintf("bytes=%d-", d.at))
		rest.Set("If-Range", d.same)
		resp, err := request(d.ctx, d.from, rest)
		if err != nil {
			cause = err
			continue
		}
		if resp.StatusCode == http.StatusPartialContent && hasRest(resp.Header, d.at) {
			_ = d.body.Close()
			d.body, d.tries = resp.Body, d.tries+1
			return nil
		}
		_ = resp.Body.Close()
		if resp.StatusCode < http.StatusInternalServerError {
			return fmt.Errorf("%w, and the server doesn't continue after %d bytes: it answers %s", cause, d.at, resp.Status)
		}
		cause = fmt.Errorf("%s answers %s", redacted(d.from), resp.Status)
	}
	return cause
}

// Close ends the download.
func (d *download) Close() error { return d.body.Close() }

// hasRest reports whether a response has all that follows an offset: a server may send less than was requested (RFC
// 9110, section 15.3.7).
func hasRest(header http.Header, offset int64) bool {
	var first, last, all int64
	n, err := fmt.Sscanf(header.Get("Content-Range"), "bytes %d-%d/%d", &first, &last, &all)
	return err == nil && n == 3 && first == offset && last+1 == all
}
