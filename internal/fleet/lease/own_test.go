package lease

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// A lease that this run holds needn't be taken. One that an operation of this run only waits for is another run's.
func TestTakeUnlessOwn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		over := make(chan struct{})
		defer close(over)

		on := &run{
			secrets: &secrets{all: map[string]libvirt.OwnSecret{}}, began: time.Now(), over: over,
			chaos: rand.New(rand.NewPCG(1, 2)), //nolint:gosec // it needs no secrecy
		}
		alice := NewKeeper(t.Context(), "alice", slog.New(slog.DiscardHandler), nil)
		bob := NewKeeper(t.Context(), "bob", slog.New(slog.DiscardHandler), nil)
		soon := func(k *Keeper) (*Held, error) {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()

			return k.TakeUnlessOwn(ctx, on, "vm", "starting")
		}

		_, held, err := alice.Take(t.Context(), on, "vm", "updating")
		if err != nil {
			t.Fatal(err)
		}

		if l, err := soon(alice); l != nil || err != nil {
			t.Errorf("alice has it: %v, %v; want no lease", l, err)
		}

		if l, err := soon(bob); l != nil || !errors.Is(err, ErrHeld) {
			t.Errorf("alice has it, bob: %v, %v; want %v", l, err, ErrHeld)
		}

		var all sync.WaitGroup

		all.Go(func() {
			_, waited, err := bob.Take(t.Context(), on, "vm", "updating")
			if err != nil {
				t.Error(err)

				return
			}

			time.Sleep(10 * time.Second) //nolint:forbidigo // it is simulated time
			waited.Release()
		})
		synctest.Wait()

		if l, err := soon(bob); l != nil || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("another operation of bob's waits for it: %v, %v; want the end of the time", l, err)
		}

		held.Release()
		time.Sleep(5 * time.Second) //nolint:forbidigo // it is simulated time

		if l, err := soon(bob); l != nil || err != nil {
			t.Errorf("bob has it now: %v, %v; want no lease", l, err)
		}

		all.Wait()

		l, err := soon(alice)
		if err != nil || l == nil || Confirm(contextOf(t, l)) != nil {
			t.Fatalf("it is free: %v, %v", l, err)
		}

		l.Release()
	})
}

// What is changed on other hosts continues while the host of the lease can't be reached, and ends once it is known that
// another run has taken the lease over.
func TestUntilLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		over := make(chan struct{})
		defer close(over)

		hers := &run{
			secrets: &secrets{all: map[string]libvirt.OwnSecret{}}, began: time.Now(), over: over,
			chaos:  rand.New(rand.NewPCG(1, 2)), //nolint:gosec // it needs no secrecy
			faults: []fault{{kind: partitioned, from: 5 * time.Second, till: 2 * time.Minute}},
		}
		his := &run{
			secrets: hers.secrets, began: time.Now(), over: over,
			chaos: rand.New(rand.NewPCG(3, 4)), //nolint:gosec // it needs no secrecy
		}
		alice := NewKeeper(t.Context(), "alice", slog.New(slog.DiscardHandler), nil)
		bob := NewKeeper(t.Context(), "bob", slog.New(slog.DiscardHandler), nil)

		held, l, err := alice.Take(t.Context(), hers, "policy", "writing")
		if err != nil {
			t.Fatal(err)
		}

		until, end := l.UntilLost(t.Context())
		defer end()

		_, taken, err := bob.Take(t.Context(), his, "policy", "writing")
		if err != nil {
			t.Fatal(err)
		}

		if err := Confirm(held); !errors.Is(err, ErrUnconfirmed) {
			t.Errorf("under the lease: %v; want %v", err, ErrUnconfirmed)
		}

		if err := errors.Join(Confirm(until), until.Err()); err != nil {
			t.Errorf("until it is lost: %v", err)
		}

		<-until.Done()

		if at, err := time.Since(hers.began), context.Cause(until); at < 2*time.Minute || !errors.Is(err, ErrLost) {
			t.Errorf("ended after %v: %v; want %v when the host is reached again", at, err, ErrLost)
		}

		taken.Release()
		l.Release()
	})
}

// contextOf returns a context that carries the lease.
func contextOf(t *testing.T, l *Held) context.Context {
	t.Helper()

	ctx, end := l.With(t.Context())
	t.Cleanup(end)

	return ctx
}
