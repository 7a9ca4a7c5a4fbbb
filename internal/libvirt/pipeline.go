package libvirt

import (
	"errors"

	"golang.org/x/sync/errgroup"
)

// pipelined is the number of calls that one bulk read, and all bulk reads of one host together, may have in progress.
// The daemon works on five at a time and takes the next from its socket's buffer without waiting for the network: at a
// latency of 50 ms, 200 domains take 0.2 s with 256, and 0.35 s with 100.
const pipelined = 256

// waiting holds a token for each pipelined call of all hosts that a caller waits for. A call holds a thread while it
// waits, and the Go runtime ends a program that needs more than 10,000 threads, for example one that reads forty hosts
// at the same time. Calls that hang because no stream can be cut, and for which no caller waits any more, only hold
// tokens of their own host.
var waiting = make(chan struct{}, 8*pipelined)

// errAbandoned is the error of a call that no caller waits for.
var errAbandoned = errors.New("no caller waits for the answer any more")

// pipeline runs the calls of one bulk read. Like an errgroup's, its Wait returns the first error.
type pipeline struct {
	conn  *conn
	calls errgroup.Group
}

func (c *conn) newPipeline() *pipeline {
	p := &pipeline{conn: c}
	p.calls.SetLimit(pipelined)
	return p
}

// Go waits until the call may start. The call never starts once no caller waits for the calls on this connection.
func (p *pipeline) Go(call func() error) {
	p.calls.Go(func() error {
		if !p.conn.takeTokens() {
			return errAbandoned
		}
		defer p.conn.returnTokens()
		return call()
	})
}

// Wait waits for all calls.
func (p *pipeline) Wait() error { return p.calls.Wait() }

// takeTokens takes the tokens of one call. It returns false when the connection is abandoned first.
func (c *conn) takeTokens() bool {
	select {
	case c.host.pipelined <- struct{}{}:
	case <-c.abandoned:
		return false
	}
	select {
	case waiting <- struct{}{}:
	case <-c.abandoned:
		<-c.host.pipelined
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dropped {
		<-waiting
		<-c.host.pipelined
		return false
	}
	c.tokens++
	return true
}

// returnTokens returns the tokens of a call that has ended.
func (c *conn) returnTokens() {
	<-c.host.pipelined
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.dropped {
		c.tokens--
		<-waiting
	}
}

// abandonTokens returns the tokens of calls that no caller waits for, so that calls of other hosts can have them. The
// caller holds the lock.
func (c *conn) abandonTokens() {
	if c.dropped {
		return
	}
	c.dropped = true
	for range c.tokens {
		<-waiting
	}
	c.tokens = 0
	close(c.abandoned)
}
