package fleettest

import (
	"os"
	"runtime/pprof"
	"sync"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
)

// Patience is how long a test waits for a run that is to end by itself.
const Patience = 8 * time.Minute

// Hung ends a test that waited in vain, and prints where every goroutine is: that says what the run waits for.
func Hung(t *testing.T, what string) {
	t.Helper()

	_ = pprof.Lookup("goroutine").WriteTo(os.Stderr, 2)

	t.Fatalf("waited %v for %s; above is where each goroutine was", Patience, what)
}

// Await returns how a run ended.
func Await[T any](t *testing.T, over <-chan T) T {
	t.Helper()

	select {
	case end := <-over:
		return end
	case <-time.After(Patience):
		Hung(t, "the end of a run")
		panic("unreachable")
	}
}

// AwaitAll waits until all goroutines of a group have ended.
func AwaitAll(t *testing.T, all *sync.WaitGroup) {
	t.Helper()

	over := make(chan struct{})

	go func() {
		defer close(over)
		all.Wait()
	}()

	Await(t, over)
}

// AwaitCopying waits until the VM's memory is on its way from the host. A run that ends before that, which over says,
// will not copy it.
func AwaitCopying[T any](t *testing.T, h *inventory.Host, uuid string, over <-chan T) {
	t.Helper()

	late := time.After(Patience)
	tick := time.NewTicker(50 * time.Millisecond)

	defer tick.Stop()

	for {
		if job, err := h.Conn.Job(t.Context(), uuid); err == nil && job != nil && job.Memory.Processed > 0 {
			return
		}

		select {
		case end := <-over:
			t.Fatalf("the run ended before the memory of %s was on its way: %v", uuid, end)
		case <-late:
			Hung(t, "the memory of "+uuid+" to be on its way")
		case <-tick.C:
		}
	}
}
