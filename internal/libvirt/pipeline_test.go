package libvirt

import (
	"errors"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestPipeline_stalledHostDelaysNoOther: calls that hang on one host, for which no caller waits any more, leave the
// others all that they need.
func TestPipeline_stalledHostDelaysNoOther(t *testing.T) { //nolint:paralleltest // The tokens are those of the process.
	release := make(chan struct{})
	var stalled sync.WaitGroup
	for range cap(waiting)/pipelined + 1 {
		c := &conn{host: &Host{pipelined: make(chan struct{}, pipelined)}, abandoned: make(chan struct{})}
		started := make(chan struct{}, 2*pipelined)
		calls := c.newPipeline()
		stalled.Go(func() {
			for range 2 * pipelined { // Half of them never start.
				calls.Go(func() error {
					started <- struct{}{}
					<-release
					return nil
				})
			}
			if err := calls.Wait(); !errors.Is(err, errAbandoned) {
				t.Errorf("got %v, want %v", err, errAbandoned)
			}
		})
		for range pipelined {
			<-started
		}
		c.mu.Lock()
		c.abandonTokens()
		c.mu.Unlock()
	}
	if n := len(waiting); n != 0 {
		t.Errorf("%d tokens are held by calls that no caller waits for", n)
	}
	healthy := &conn{host: &Host{pipelined: make(chan struct{}, pipelined)}, abandoned: make(chan struct{})}
	calls := healthy.newPipeline()
	for range 2 * pipelined {
		calls.Go(func() error { return nil })
	}
	if err := calls.Wait(); err != nil {
		t.Errorf("a healthy host: %v", err)
	}
	close(release)
	stalled.Wait()
	if n := len(waiting); n != 0 {
		t.Errorf("%d tokens are lost", n)
	}
}

// TestCopyReports_endWithTheCopying: who has left isn't told of a file any more.
func TestCopyReports_endWithTheCopying(t *testing.T) {
	t.Parallel()
	var told []string
	r := &copyReports{
		made:     func() error { told = append(told, "made"); return nil },
		progress: func(uint64) { told = append(told, "copied") },
	}
	if err := r.fileMade(); err != nil {
		t.Fatal(err)
	}
	r.addCopied(1)
	r.stopReports()
	r.addCopied(2)
	if err := r.fileMade(); !errors.Is(err, errCopyAbandoned) {
		t.Errorf("got %v, want %v", err, errCopyAbandoned)
	}
	if diff := cmp.Diff([]string{"made", "copied"}, told); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}
