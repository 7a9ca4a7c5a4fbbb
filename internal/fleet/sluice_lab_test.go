package fleet

import (
	"io"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// sluice is a socket that leads to a host's libvirtd. Once that many bytes were sent there it lets nothing more pass,
// on no connection, until do has returned.
func sluice(t *testing.T, h *lab.Host, bytes int64, do func()) (socket string) {
	t.Helper()

	socket = filepath.Join(t.TempDir(), "socket")

	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}

	g := &gated{bytes: bytes, do: sync.OnceFunc(do)}

	var (
		accepting, serving sync.WaitGroup
		ends               []net.Conn
	)

	accepting.Go(func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}

			far, err := (&net.Dialer{}).DialContext(t.Context(), "unix", h.Path("/run/libvirt/libvirt-sock"))
			if err != nil {
				_ = near.Close()

				continue
			}

			ends = append(ends, near, far)

			serving.Go(func() { pass(far, io.TeeReader(near, g), near) })
			serving.Go(func() { pass(near, far, far) })
		}
	})

	t.Cleanup(func() {
		_ = listener.Close()

		accepting.Wait()

		// The fleet, which was made later, has closed its connections, unless one was left behind.
		for _, end := range ends {
			_ = end.Close()
		}

		serving.Wait()
	})

	return socket
}

// pass copies until one side ends, and ends the other.
func pass(to io.WriteCloser, read io.Reader, from io.Closer) {
	_, _ = io.Copy(to, read)
	_, _ = to.Close(), from.Close()
}

// gated counts what is sent to a host.
type gated struct {
	bytes int64
	sent  atomic.Int64
	do    func()
}

// Write returns when what is written may pass.
func (g *gated) Write(p []byte) (int, error) {
	if g.sent.Add(int64(len(p))) > g.bytes {
		g.do()
	}

	return len(p), nil
}
