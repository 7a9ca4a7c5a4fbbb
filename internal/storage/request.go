package storage

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"strings"
)

// ErrNotServed says that a server refuses to send a file.
var ErrNotServed = errors.New("the server doesn't send it")

// DownloadError says that a file can't be downloaded: no server answers, nor the proxy that the environment names, or
// the server ended the transfer early.
type DownloadError struct {
	// URL is the file's, without what may be a secret.
	URL string
	// Cut says that the transfer had begun.
	Cut bool
	Err error
}

func (e *DownloadError) Error() string {
	if e.Cut {
		return fmt.Sprintf("the server ended the transfer of %s early: %v", e.URL, e.Err)
	}
	return e.Err.Error() // It names the URL.
}

func (e *DownloadError) Unwrap() error { return e.Err }

// unsent returns a DownloadError for an error of a request or a transfer, unless the error is of another kind: ctx
// ended, from is no URL, or the server isn't trusted, which has advice of its own.
func unsent(ctx context.Context, from string, begun bool, err error) error {
	of, requested := errors.AsType[*url.Error](err)
	_, unknown := errors.AsType[x509.UnknownAuthorityError](err)
	if ctx.Err() != nil || unknown || requested && of.Op == "parse" {
		return err
	}
	return &DownloadError{URL: redacted(from), Cut: begun, Err: err}
}

// client doesn't request compression: a checksum is that of the file as it is.
var client = func() *http.Client {
	t, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return http.DefaultClient
	}
	t = t.Clone()
	t.DisableCompression, t.DisableKeepAlives = true, true
	return &http.Client{Transport: validRedirects{t}}
}()

// validRedirects refuses a redirect to an invalid URL before http.Client does: that error would quote the URL with its
// secrets.
type validRedirects struct{ http.RoundTripper }

func (v validRedirects) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := v.RoundTripper.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if _, err := req.URL.Parse(resp.Header.Get("Location")); err != nil {
		return nil, errors.Join(errors.New("the server redirects to an invalid URL"), resp.Body.Close())
	}
	return resp, nil
}

func get(ctx context.Context, from string) (*http.Response, error) {
	resp, err := request(ctx, from, nil)
	if err != nil {
		return nil, unsent(ctx, from, false, err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, errors.Join(notServed(from, resp), resp.Body.Close())
	}
	return resp, nil
}

func notServed(from string, resp *http.Response) error {
	return fmt.Errorf("%w: %s answers %s", ErrNotServed, redacted(from), resp.Status)
}

// CheckAvailable asks the servers of the image and of its checksum file for the first byte. It returns ErrNotServed if
// one refuses that, and fs.ErrNotExist if the image is a local file that isn't there. A server that can't be asked is
// no error.
func (s Source) CheckAvailable(ctx context.Context) error {
	if s.File != "" {
		if _, err := os.Stat(s.File); errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	for _, from := range []string{s.URL, s.Checksum} {
		if !isURL(from) {
			continue
		}
		resp, err := request(ctx, from, http.Header{"Range": {"bytes=0-0"}})
		if err != nil {
			continue
		}
		_ = resp.Body.Close()
		if resp.StatusCode >= http.StatusBadRequest && resp.StatusCode != http.StatusRequestedRangeNotSatisfiable {
			return notServed(from, resp)
		}
	}
	return nil
}

// request asks a server for a file. header may be nil. Its errors have no secrets of the URL, nor of one that the
// server redirects to.
func request(ctx context.Context, from string, header http.Header) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return nil, redactedError(err)
	}
	if header != nil {
		req.Header = header
	}
	resp, err := client.Do(req)
	err = redactedError(err)
	if _, unknown := errors.AsType[x509.UnknownAuthorityError](err); unknown {
		return nil, fmt.Errorf("%w; where virtfleet runs, add the certificate of its CA to the system's, or on Linux name a "+
			"file with it in SSL_CERT_FILE", err)
	}
	return resp, err
}

// redactedError removes what may be a secret from the URL that an error of a request or of a URL names.
func redactedError(err error) error {
	if of, ok := errors.AsType[*url.Error](err); ok {
		of.URL = redacted(of.URL)
		if of.Op == "parse" {
			of.Err = errors.New("invalid URL") // The cause quotes the URL or the part of it that is invalid.
		}
	}
	return err
}

// redacted returns a URL without what may be a secret: the user, the password, and the values of the query, such as a
// signature or a token.
func redacted(from string) string {
	const hidden = "xxxxx"
	u, err := url.Parse(from)
	if err != nil {
		return "the server"
	}
	if u.User != nil {
		u.User = url.User(hidden)
	}
	query := strings.Split(u.RawQuery, "&")
	for i, part := range query {
		if name, _, named := strings.Cut(part, "="); named {
			query[i] = name + "=" + hidden
		} else if part != "" {
			query[i] = hidden
		}
	}
	u.RawQuery = strings.Join(query, "&")
	u.Fragment, u.RawFragment = "", ""
	return u.String()
}
