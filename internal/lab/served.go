package lab

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"
)

// TLSExport is NBD that accepts no client without a certificate of the authority.
func (l *Lab) TLSExport(t testing.TB, a *Authority, name string, size int64) *Export {
	t.Helper()
	certificates := filepath.Join(t.TempDir(), "pki")
	a.write(t, certificates, "store", l.store.address)
	ctx, cancel := stepContext(t)
	defer cancel()
	cleanup(t, "removing export "+name, func(ctx context.Context) error { return l.RemoveExport(ctx, name) })
	export, err := l.createExport(ctx, name, size, "--object",
		"tls-creds-x509,id=tls,endpoint=server,verify-peer=yes,dir="+certificates, "--tls-creds=tls")
	if err != nil {
		t.Fatal(err)
	}
	return export
}

// Login is the account that a web server accepts.
type Login struct{ Username, Password string }

// Serve serves a file to all hosts until the test ends, over HTTP, or over HTTPS with a certificate that no host
// trusts. It returns the server's address.
func (l *Lab) Serve(t testing.TB, file string, content []byte, login Login, https bool) (address string) {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		username, password, _ := r.BasicAuth()
		switch {
		case username != login.Username || password != login.Password:
			w.Header().Set("WWW-Authenticate", "Basic")
			w.WriteHeader(http.StatusUnauthorized)
		case r.URL.Path != "/"+file:
			http.NotFound(w, r)
		default:
			http.ServeContent(w, r, file, time.Time{}, bytes.NewReader(content))
		}
	}))
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", l.gateway()+":0")
	if err != nil {
		t.Fatal(err)
	}
	server.Listener = listener
	if https {
		server.StartTLS()
	} else {
		server.Start()
	}
	t.Cleanup(server.Close)
	return listener.Addr().String()
}
