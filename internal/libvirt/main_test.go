package libvirt

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab/expiry"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(helperEnv); path != "" {
		if err := stranger(path); err != nil {
			log.Fatal(err)
		}
		return
	}
	// libvirt can't take back its event loop.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction(
		"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt.runEventLoop"))
}

// open opens a host for the time of a test.
func open(t testing.TB, cfg Config) *Host {
	t.Helper()
	if cfg.Name == "" {
		cfg.Name = "kvm1"
	}
	h, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

// testDriver gives a host of libvirt's own test driver of its own, with the given domains.
func testDriver(t testing.TB, domains ...string) *Host {
	t.Helper()
	file := filepath.Join(t.TempDir(), "node.xml")
	document := "<node>" + strings.Join(domains, "") + "</node>"
	if err := os.WriteFile(file, []byte(document), 0o600); err != nil {
		t.Fatal(err)
	}
	return open(t, Config{URI: "test://" + file})
}

// testDomain is a domain for the test driver.
func testDomain(name, uuid string) string {
	return fmt.Sprintf(`<domain type='test'><name>%s</name><uuid>%s</uuid><memory>131072</memory><vcpu>1</vcpu>`+
		`<os><type>hvm</type></os></domain>`, name, uuid)
}

// uuidOf makes a UUID from a number.
func uuidOf(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", n) }

// want fails the test unless err is of that kind.
func want(t testing.TB, err, kind error) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Fatalf("got error %v, want one that is %q", err, kind)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// patience is how long a test waits before it fails: longer than a guest takes to boot on the slowest computer.
const patience = 5 * time.Minute

// eventually polls for something that a test can't be told of.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	deadline, tick := time.After(patience), time.NewTicker(10*time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// expires gives a context with a deadline, which passes when the test says so.
func expires(t testing.TB) (ctx context.Context, pass func()) {
	t.Helper()
	ctx, pass = expiry.Context(t)
	return dated{ctx}, pass
}

// dated says that it has a deadline, so that none is set.
type dated struct{ context.Context }

func (dated) Deadline() (time.Time, bool) { return time.Now().Add(patience), true }

// link is a way to a daemon's socket that can be slow, stall, and break.
type link struct {
	socket func(path string) string // where the host's socket really is
	delay  time.Duration            // in each direction

	mu      sync.Mutex
	stalled chan struct{} // not nil while nothing passes
	refused error         // what Dial says, when not nil
	open    map[net.Conn]struct{}
	dials   int
}

func (l *link) Dial(ctx context.Context, path string) (net.Conn, error) {
	l.mu.Lock()
	l.dials++
	refused := l.refused
	l.mu.Unlock()
	if refused != nil {
		return nil, refused
	}
	remote, err := (&net.Dialer{}).DialContext(ctx, "unix", l.socket(path))
	if err != nil {
		return nil, err
	}
	near, far := net.Pipe()
	l.mu.Lock()
	if l.open == nil {
		l.open = map[net.Conn]struct{}{}
	}
	l.open[far] = struct{}{}
	l.mu.Unlock()
	stop := make(chan struct{})
	var once sync.Once
	end := func() {
		once.Do(func() {
			close(stop)
			_, _ = far.Close(), remote.Close()
			l.mu.Lock()
			delete(l.open, far)
			l.mu.Unlock()
		})
	}
	// A client that has left ends the stream also while nothing passes; what the host sent last still arrives.
	go func() { defer end(); l.pump(remote, far, stop, end) }()
	go func() { defer end(); l.pump(far, remote, stop, func() {}) }()
	return near, nil
}

// pump copies, each chunk after the delay. The delay costs no bandwidth, as distance doesn't.
func (l *link) pump(to, from net.Conn, stop chan struct{}, ended func()) {
	type chunk struct {
		due   time.Time
		bytes []byte
	}
	chunks := make(chan chunk, 1024)
	go func() {
		defer close(chunks)
		for {
			buffer := make([]byte, 32*1024)
			n, err := from.Read(buffer)
			if n > 0 {
				select {
				case chunks <- chunk{time.Now().Add(l.delay), buffer[:n]}:
				case <-stop:
					return
				}
			}
			if err != nil {
				ended()
				return
			}
		}
	}()
	for c := range chunks {
		if wait := time.Until(c.due); wait > 0 {
			select {
			case <-time.After(wait):
			case <-stop:
				return
			}
		}
		l.mu.Lock()
		stalled := l.stalled
		l.mu.Unlock()
		if stalled != nil {
			select {
			case <-stalled:
			case <-stop:
				return
			}
		}
		if _, err := to.Write(c.bytes); err != nil {
			return
		}
	}
}

// stall lets nothing pass until resume is called.
func (l *link) stall() (resume func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	stalled := make(chan struct{})
	l.stalled = stalled
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.stalled = nil
		close(stalled)
	}
}

// cut breaks all streams.
func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for conn := range l.open {
		_ = conn.Close()
	}
}

// refuse makes Dial fail, or not any more.
func (l *link) refuse(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refused = err
}

// freeMemory is the host's free memory in bytes. Tests of faults make this call, because it is short and reads nothing
// that is remembered.
func (h *Host) freeMemory(ctx context.Context) (uint64, error) {
	return call(ctx, h, readCall("reading free memory"), func(c *conn) (uint64, error) {
		c.countCall("virNodeGetFreeMemory")
		return c.c.GetFreeMemory()
	})
}
