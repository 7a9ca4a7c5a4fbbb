package ssh

import (
	"context"
	"io"
	"net"
	"net/netip"
	"os/exec"
	"sync"
	"testing"
)

// proxy stands between a client and a server, and plays a network that fails.
type proxy struct {
	listener net.Listener
	server   netip.AddrPort

	mu      sync.Mutex
	changed *sync.Cond
	frozen  bool
	held    int // How many times something had to stay behind because of that.
	conns   []net.Conn
	count   int
}

func startProxy(t *testing.T, server netip.AddrPort) *proxy {
	t.Helper()
	p := &proxy{server: server}
	p.changed = sync.NewCond(&p.mu)
	ctx := context.WithoutCancel(t.Context())
	p.listener = serve(t, "tcp", "127.0.0.1:0", func(conn net.Conn) { p.serve(ctx, conn) })
	t.Cleanup(func() {
		p.thaw()
		p.cut()
	})
	return p
}

func (p *proxy) port() int {
	return int(netip.MustParseAddrPort(p.listener.Addr().String()).Port())
}

func (p *proxy) serve(ctx context.Context, client net.Conn) {
	server, err := (&net.Dialer{}).DialContext(ctx, "tcp", p.server.String())
	if err != nil {
		return
	}
	p.mu.Lock()
	p.conns = append(p.conns, client, server)
	p.count++
	p.changed.Broadcast()
	p.mu.Unlock()
	var copying sync.WaitGroup
	for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
		copying.Go(func() {
			_, _ = io.Copy(&freezer{Writer: way[1], proxy: p}, way[0])
			_ = client.Close()
			_ = server.Close()
		})
	}
	copying.Wait()
}

// freezer writes nothing while the proxy is frozen.
type freezer struct {
	io.Writer
	proxy *proxy
}

func (f *freezer) Write(b []byte) (int, error) {
	f.proxy.mu.Lock()
	if f.proxy.frozen {
		f.proxy.held++
		f.proxy.changed.Broadcast()
	}
	for f.proxy.frozen {
		f.proxy.changed.Wait()
	}
	f.proxy.mu.Unlock()
	return f.Writer.Write(b)
}

// freeze lets nothing through any more, without closing anything: a peer that is gone without a word.
func (p *proxy) freeze() { p.set(true) }
func (p *proxy) thaw()   { p.set(false) }

func (p *proxy) set(frozen bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.frozen = frozen
	p.changed.Broadcast()
}

// cut closes all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range p.conns {
		_ = conn.Close()
	}
	p.conns = nil
}

// awaitConnections waits until there were so many connections.
func (p *proxy) awaitConnections(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.count < n {
		p.changed.Wait()
	}
}

// awaitHeld waits until something was sent that doesn't get through.
func (p *proxy) awaitHeld() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.held == 0 {
		p.changed.Wait()
	}
}

// startSilence listens, accepts and never says a word. It returns the port.
func startSilence(t *testing.T) int {
	t.Helper()
	listener := serve(t, "tcp", "127.0.0.1:0", func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) })
	return int(netip.MustParseAddrPort(listener.Addr().String()).Port())
}

// needNetcat skips a test that needs netcat where there is none.
func needNetcat(t *testing.T, forwarding string) {
	t.Helper()
	if forwarding == "yes" {
		return
	}
	if _, err := exec.LookPath("nc"); err != nil {
		lacks(t, "netcat (apt-get install netcat-openbsd): %v", err)
	}
}
