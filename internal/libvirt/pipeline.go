package libvirt

import "golang.org/x/sync/errgroup"

// pipelined is the number of calls that one bulk read has under way on its connection. The daemon works on five at a
// time and takes the next from its socket's buffer without waiting for the network: at 50 ms, 256 take 0.2 s where 100
// take 0.35 s for 200 domains.
const pipelined = 256

// waiting holds a token for each pipelined call of all hosts. A call holds a thread while it waits, and the Go runtime
// ends a program that needs more than 10,000: one that reads forty hosts at the same time, for example.
var waiting = make(chan struct{}, 8*pipelined)

// pipeline runs the calls of one bulk read. Like an errgroup's, its Wait gives the first error.
type pipeline struct{ calls errgroup.Group }

func newPipeline() *pipeline {
	p := &pipeline{}
	p.calls.SetLimit(pipelined)
	return p
}

// Go waits until the call may start.
func (p *pipeline) Go(call func() error) {
	p.calls.Go(func() error {
		waiting <- struct{}{}
		defer func() { <-waiting }()
		return call()
	})
}

// Wait waits for all calls.
func (p *pipeline) Wait() error { return p.calls.Wait() }
