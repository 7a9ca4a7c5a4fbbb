package lab

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Proxy passes connections on to a host's SSH server, with a delay. It can stop or cut them.
type Proxy struct {
	// Host and Port are where it listens.
	Host string
	Port int
	// KnownHostsFile is the lab's, and also knows the host by the proxy's address.
	KnownHostsFile string

	target   string
	delay    time.Duration
	listener net.Listener
	work     sync.WaitGroup
	mu       sync.Mutex
	conns    map[net.Conn]struct{}
	cut      bool
	closed   bool
	enough   func() bool // See Gate.
	shut     bool
	cutAt    func() bool // See CutAt.
	trips    *roundTrips
}

// roundTrips is how many round trips deep the deepest thing is that has reached a host, and the client.
type roundTrips struct {
	mu              sync.Mutex
	asked, answered int
}

func (r *roundTrips) question() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.answered + 1
}

func (r *roundTrips) answer() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asked
}

func (r *roundTrips) reached(deepest *int, depth int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	*deepest = max(*deepest, depth)
}

// URI is how the provider reaches the host through the proxy.
func (p *Proxy) URI() string { return "qemu+ssh://root@" + p.Address() + "/system" }

// Address is where the proxy listens, host and port in one.
func (p *Proxy) Address() string { return net.JoinHostPort(p.Host, strconv.Itoa(p.Port)) }

// DelayProxy listens until the test ends and passes connections on to a host's SSH server, each byte delayed by half
// the round trip in each direction. What follows closely arrives closely: the delay costs no bandwidth, as distance
// doesn't.
func (l *Lab) DelayProxy(t testing.TB, host string, roundTrip time.Duration) *Proxy {
	t.Helper()
	return l.proxy(t, host, roundTrip, nil)
}

// Gate is a proxy to a host's SSH server that shuts for good as soon as something is so on the host: it looks before it
// lets anything through. Who learns over it what came of a call learns nothing of the one that made it so, and makes no
// other one. Connections stay, silent.
func (l *Lab) Gate(t testing.TB, host string, enough func() bool) *Proxy {
	t.Helper()
	return l.proxy(t, host, 0, enough)
}

func (l *Lab) proxy(t testing.TB, host string, roundTrip time.Duration, enough func() bool) *Proxy {
	t.Helper()
	h := l.need(t, host)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address, ok := listener.Addr().(*net.TCPAddr)
	if !ok {
		t.Fatalf("unexpected address %v", listener.Addr())
	}
	p := &Proxy{
		Host: "127.0.0.1", Port: address.Port, target: h.Address + ":22", delay: roundTrip / 2, enough: enough,
		listener: listener, conns: map[net.Conn]struct{}{}, trips: &roundTrips{},
		KnownHostsFile: filepath.Join(t.TempDir(), "known_hosts"),
	}
	known, err := os.ReadFile(l.KnownHostsFile())
	if err != nil {
		t.Fatal(err)
	}
	alias := fmt.Sprintf("[%s]:%d,%s,", p.Host, p.Port, h.Address)
	content := strings.ReplaceAll(string(known), h.Address+",", alias)
	if err := writeFile(p.KnownHostsFile, content, 0o644); err != nil {
		t.Fatal(err)
	}
	p.work.Go(p.serve)
	t.Cleanup(p.close)
	return p
}

// RoundTrips is how many times the client has waited for the host so far, one after the other: an answer is one deeper
// than the answers that the client had when it asked, whatever else was asked meanwhile. No clock measures it.
// A client that takes longer than the delay between two questions may have had an answer that it doesn't need for the
// second one: so a busy computer makes it more, and nothing makes it less.
func (p *Proxy) RoundTrips() int {
	trips := p.counted()
	trips.mu.Lock()
	defer trips.mu.Unlock()
	return trips.answered
}

// counted is what new connections are counted in.
func (p *Proxy) counted() *roundTrips {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.trips
}

// CountWith counts a client's waits together with those for another proxy's host, whose connections are yet to be made:
// an answer of one host is what the client may have asked the other one for.
func (p *Proxy) CountWith(other *Proxy) {
	trips := other.counted()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trips = trips
}

// Cut ends all connections and every new one at once: only to those who use this proxy, the host is gone.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = true
	for conn := range p.conns {
		_ = conn.Close()
	}
}

// CutAt ends all connections, once, as soon as something is so on the host. It looks before it lets anything through,
// so the answer to the call that made it so is lost. New connections pass.
func (p *Proxy) CutAt(when func() bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cutAt = when
}

// HasCut says that CutAt has ended the connections.
func (p *Proxy) HasCut() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cutAt == nil
}

// Restore undoes Cut.
func (p *Proxy) Restore() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = false
}

func (p *Proxy) serve() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := (&net.Dialer{Timeout: 10 * time.Second}).Dial("tcp", p.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		if !p.track(client, server) {
			continue
		}
		trips := p.counted()
		p.work.Go(func() { p.pass(client, server, trips, trips.question, &trips.asked) })
		p.work.Go(func() { p.pass(server, client, trips, trips.answer, &trips.answered) })
	}
}

// isShut says whether nothing is to pass any more.
func (p *Proxy) isShut() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cutAt != nil && p.cutAt() {
		p.cutAt = nil
		for conn := range p.conns {
			_ = conn.Close()
		}
	}
	p.shut = p.shut || p.enough != nil && p.enough()
	return p.shut
}

// track remembers connections so that close and Cut end them. It closes them at once when that has happened already.
func (p *Proxy) track(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range conns {
		if p.closed || p.cut {
			_ = conn.Close()
		} else {
			p.conns[conn] = struct{}{}
		}
	}
	return !p.closed && !p.cut
}

func (p *Proxy) close() {
	_ = p.listener.Close()
	p.mu.Lock()
	p.closed = true
	for conn := range p.conns {
		_ = conn.Close()
	}
	p.mu.Unlock()
	p.work.Wait()
}

// piece is what arrived in one read, with the time at which it is due at the other end.
type piece struct {
	data  []byte
	due   time.Time
	depth int // in round trips
}

// pass copies one direction. Reading and writing are apart, so that pieces under way don't wait for each other. depth
// is how deep a piece is that was just read, and deepest that of those at the other end.
func (p *Proxy) pass(from, to net.Conn, trips *roundTrips, depth func() int, deepest *int) {
	pieces := make(chan piece, 4096)
	var writer sync.WaitGroup
	writer.Go(func() {
		// A look at the host may end this goroutine, as Fatal does. The reader must not block on a channel without a reader.
		defer func() {
			_ = from.Close()
			for range pieces {
			}
		}()
		for next := range pieces {
			timer := time.NewTimer(time.Until(next.due))
			<-timer.C
			if p.isShut() {
				continue
			}
			trips.reached(deepest, next.depth)
			if _, err := to.Write(next.data); err != nil {
				return
			}
		}
	})
	for {
		buffer := make([]byte, 32<<10)
		n, err := from.Read(buffer)
		if n > 0 {
			pieces <- piece{data: buffer[:n], due: time.Now().Add(p.delay), depth: depth()}
		}
		if err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
				_ = from.Close()
			}
			break
		}
	}
	close(pieces)
	writer.Wait()
	_ = to.Close()
	p.mu.Lock()
	delete(p.conns, from)
	p.mu.Unlock()
	_ = from.Close()
}
