package fleet

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/fleettest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/placement"
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
		arrival, err := f.ReserveArrival(t.Context(), vm, vm.On, false)
		if err == nil {
			arrival.Release()
		}
		waited <- err
	}()

	select {
	case <-waiting:
	case err := <-waited:
		t.Fatalf("it didn't wait for the other run: %v", err)
	case <-time.After(fleettest.Patience):
		fleettest.Hung(t, "the lock to be waited for")
	}

	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()

	_, err = f.ReserveArrival(ctx, vm, vm.On, false)
	if !errors.Is(err, context.DeadlineExceeded) || over.Load() {
		t.Errorf("%v, after the other run: %t", err, over.Load())
	}

	if end.Stop() {
		placed()
	}

	if err := fleettest.Await(t, waited); err != nil {
		t.Error(err)
	}
}

// While a guest shuts down for a change that adds memory, other runs place VMs on its host: that may take long.
func TestLab_placingGoesOnDuringARestart(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	h := l.StartHost(t)
	f, bob := ownFleet(t, "alice", h), ownFleet(t, "bob", h)

	d := light(t, l, lab.Name(t), nil)
	d.Spec.Memory = domain.Memory{Size: new(uint64(128 << 20)), MaxSize: new(uint64(1 << 30))}
	d.Metadata.TerminationGracePeriod = new(time.Second)
	vm := create(t, f, l, d)

	d.Spec.Memory = domain.Memory{Size: new(uint64(256 << 20)), MaxSize: new(uint64(2 << 30))}
	d.UpdatePolicy = placement.PolicyRestart
	reached := false

	listen(f, &onLog{Message: "shutting down guest", Do: func() {
		reached = true

		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()

		_, placed, err := bob.Lock(ctx, bob.Host(h.Name), "placement", "a test")
		if err != nil {
			t.Error(err)

			return
		}

		placed()
	}})

	now, err := f.Update(t.Context(), vm.UUID, lastOf(vm), d)
	if err != nil || !reached || !now.Active || *now.LiveSpec.Memory.Size != 256<<20 {
		t.Errorf("%+v, %v, reached %t", now, err, reached)
	}
}
