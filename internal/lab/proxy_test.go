package lab

import (
	"net"
	"runtime"
	"testing"
	"time"
)

// A look at the host that fails the test ends the goroutine that looks. What still comes is not passed on then, and
// the proxy can be closed nevertheless.
func TestProxy_lookThatFails(t *testing.T) {
	t.Parallel()
	client, from := net.Pipe()
	to, server := net.Pipe()
	p := &Proxy{conns: map[net.Conn]struct{}{}, enough: func() bool { runtime.Goexit(); return false }}
	p.track(from, to)
	over := make(chan struct{})
	go func() {
		defer close(over)
		deepest := 0
		p.pass(from, to, p.trips, func() int { return 0 }, &deepest)
	}()
	go func() {
		for {
			if _, err := client.Write([]byte{0}); err != nil {
				return
			}
		}
	}()
	defer func() { _, _ = client.Close(), server.Close() }()
	select {
	case <-over:
	case <-time.After(20 * time.Second):
		t.Error("it can't be closed: what comes is neither passed on nor dropped")
	}
}
