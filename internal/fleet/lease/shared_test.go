package lease

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// counting counts the leases that are taken from a run's secrets.
type counting struct {
	*run

	taken atomic.Int32
}

func (c *counting) DefineOwnSecret(ctx context.Context, s libvirt.OwnSecret) error {
	err := c.run.DefineOwnSecret(ctx, s)
	if err == nil {
		c.taken.Add(1)
	}

	return err
}

func secretsToCount(t *testing.T) *counting {
	t.Helper()

	over := make(chan struct{})
	t.Cleanup(func() { close(over) })

	return &counting{run: &run{
		secrets: &secrets{all: map[string]libvirt.OwnSecret{}}, began: time.Now(), over: over,
		chaos: rand.New(rand.NewPCG(1, 2)), //nolint:gosec // it needs no secrecy
	}}
}

// Operations that may run at the same time take one lease for all. It is held until the last one has ended, whichever
// that is. Only then an operation gets it that shares it with none, of this run or of another one.
func TestTakeShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		on := secretsToCount(t)
		alice := NewKeeper(t.Context(), "alice", slog.New(slog.DiscardHandler), nil)
		bob := NewKeeper(t.Context(), "bob", slog.New(slog.DiscardHandler), nil)

		const many = 20

		var (
			all, alone sync.WaitGroup
			users      atomic.Int32
		)

		leave := make(chan struct{}, many)

		for i := range many {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()

			all.Go(func() {
				held, release, err := alice.TakeShared(ctx, on, "network", "changing")
				if err != nil {
					t.Error(err)

					return
				}

				users.Add(1)
				<-leave

				// That one is cancelled is nothing to the others.
				if i == 0 {
					cancel()
				} else if err := errors.Join(held.Err(), Confirm(held)); err != nil {
					t.Error(err)
				}

				users.Add(-1)
				release()
				release()

				if held.Err() == nil {
					t.Error("its context hasn't ended")
				}
			})
			synctest.Wait()
		}

		time.Sleep(time.Second) //nolint:forbidigo // it is simulated time
		synctest.Wait()

		if n, taken := users.Load(), on.taken.Load(); n != many || taken != 1 {
			t.Errorf("%d have it, %d were taken; want %d and 1", n, taken, many)
		}

		for _, k := range []*Keeper{alice, bob} {
			alone.Go(func() {
				_, l, err := k.Take(t.Context(), on, "network", "removing")
				if err != nil {
					t.Error(err)

					return
				}
				defer l.Release()

				if n := users.Load(); n > 0 {
					t.Errorf("%d share it, and it was taken", n)
				}
			})
		}

		for range many {
			leave <- struct{}{}

			time.Sleep(3 * Validity) //nolint:forbidigo // it is simulated time
		}

		all.Wait()
		alone.Wait()

		if taken := on.taken.Load(); taken != 3 || len(on.all) > 0 {
			t.Errorf("%d were taken, left: %v; want 3 and none", taken, on.all)
		}
	})
}

// A lost lease ends what shares it, and isn't shared any more: who comes then takes its own.
func TestTakeShared_lost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		on := secretsToCount(t)
		alice := NewKeeper(t.Context(), "alice", slog.New(slog.DiscardHandler), nil)
		take := func() (context.Context, func()) {
			held, release, err := alice.TakeShared(t.Context(), on, "network", "changing")
			if err != nil {
				t.Fatal(err)
			}

			return held, release
		}

		one, endOne := take()
		two, endTwo := take()

		on.secrets.mu.Lock()
		clear(on.all)
		on.secrets.mu.Unlock()

		<-one.Done()
		<-two.Done()

		if err := errors.Join(context.Cause(one), context.Cause(two)); !errors.Is(err, ErrLost) {
			t.Errorf("%v, want %v", err, ErrLost)
		}

		var all sync.WaitGroup

		all.Go(func() {
			held, release := take()
			defer release()

			if err := Confirm(held); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		endOne()
		endTwo()
		all.Wait()

		if taken := on.taken.Load(); taken != 2 || len(on.all) > 0 {
			t.Errorf("%d were taken, left: %v; want 2 and none", taken, on.all)
		}
	})
}
