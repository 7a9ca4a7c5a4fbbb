package image

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// TestFetchFailure_server: if a server of images doesn't answer, its name isn't found, it ends the transfer early, or
// has a part of the image only, the error says what to do about the server, without a secret of the URL. It doesn't
// speak of hosts and their VMs.
func TestFetchFailure_server(t *testing.T) {
	t.Parallel()
	cut := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1048576")
		_, _ = w.Write(make([]byte, 64<<10))
	}))
	t.Cleanup(cut.Close)
	half := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff}) // the header of gzip
	}))
	t.Cleanup(half.Close)
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for server, says := range map[string]string{
		gone.URL: "HTTPS_PROXY", "http://images.invalid": "HTTPS_PROXY", cut.URL: "from its beginning",
		half.URL: "the whole file",
	} {
		source := storage.Source{URL: server + "/base.qcow2?token=s3cr3t"}
		fetched, err := storage.Fetch(t.Context(), source, slog.New(slog.DiscardHandler))
		if err == nil {
			t.Fatal(errors.Join(errors.New("it was fetched: "+server), fetched.Close()))
		}
		detail := (&model{}).fetchFailure(t.Context(), err).Detail()
		named := strings.Contains(detail, says) && strings.Contains(detail, server+"/base.qcow2?token=xxxxx")
		if !named || strings.Contains(detail, "s3cr3t") || strings.Contains(detail, "sshd") ||
			strings.Contains(detail, "on_unreachable") || strings.Contains(detail, "hosts.") {
			t.Errorf("%s: %s", server, detail)
		}
	}
}
