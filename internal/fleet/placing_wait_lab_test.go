package fleet

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// An operation ends when its time is over, although another operation of its run still waits for the run that places
// VMs on the host.
func TestLab_placingWaitsNoLongerThanItsTime(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	h := l.StartHost(t)
	f, bob := ownFleet(t, "alice", h), ownFleet(t, "bob", h)

	d := light(t, l, lab.Name(t), nil)
	d.Metadata.RunStrategy = "Halted"
	vm := create(t, f, l, d)

	_, placed, err := bob.Lock(t.Context(), bob.Host(h.Name), "placement", "a test")
	if err != nil {
		t.Fatal(err)
	}

	var over atomic.Bool

	end := time.AfterFunc(30*time.Second, func() { over.Store(true); placed() })
	waiting, waited := make(chan struct{}), make(chan error, 1)

	listen(f, &onLog{Message: "waiting for another run's lease", Do: func() { close(waiting) }})

	go func() {
		_, release, err := f.ReserveArrival(t.Context(), vm, vm.On, 0)
		if err == nil {
			release()
		}
		waited <- err
	}()

	<-waiting

	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()

	_, _, err = f.ReserveArrival(ctx, vm, vm.On, 0)
	if !errors.Is(err, context.DeadlineExceeded) || over.Load() {
		t.Errorf("%v, after the other run: %t", err, over.Load())
	}

	if end.Stop() {
		placed()
	}

	if err := <-waited; err != nil {
		t.Error(err)
	}
}
