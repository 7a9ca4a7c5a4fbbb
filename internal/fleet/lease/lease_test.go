package lease

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/admission"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// secrets are what libvirt's secrets are to a lease: at most one of a usage id, found by UUID or usage id.
type secrets struct {
	mu  sync.Mutex
	all map[string]libvirt.OwnSecret // by usage id
}

func (s *secrets) define(n libvirt.OwnSecret) error {
	if _, taken := s.all[n.UsageID]; taken {
		return libvirt.ErrExists
	}

	s.all[n.UsageID] = n

	return nil
}

func (s *secrets) set(n libvirt.OwnSecret) error {
	if s.all[n.UsageID].UUID != n.UUID {
		return libvirt.ErrNotFound
	}

	s.all[n.UsageID] = n

	return nil
}

func (s *secrets) undefine(n libvirt.OwnSecret) error {
	if s.all[n.UsageID].UUID != n.UUID {
		return libvirt.ErrNotFound
	}

	delete(s.all, n.UsageID)

	return nil
}

// fault is what befalls a run, or the daemon, for a while.
type fault struct {
	kind       string
	from, till time.Duration
}

const (
	killed      = "killed"
	frozen      = "frozen"
	partitioned = "partitioned"
)

// run is one process that reaches the secrets over a link of its own.
type run struct {
	*secrets
	id     int
	faults []fault
	began  time.Time
	over   chan struct{}

	mu    sync.Mutex
	chaos *rand.Rand
}

func (r *run) Name() string { return "h" }

// now is the fault of that kind that lasts now.
func (r *run) now(kind string) (fault, bool) {
	at := time.Since(r.began)

	for _, f := range r.faults {
		if f.kind == kind && f.from <= at && (kind == killed || at < f.till) {
			return f, true
		}
	}

	return fault{}, false
}

// waitWhileFrozen returns when the process isn't frozen, and false if it was killed.
func (r *run) waitWhileFrozen() bool {
	for {
		if _, dead := r.now(killed); dead {
			<-r.over

			return false
		}

		f, still := r.now(frozen)
		if !still {
			return true
		}

		select {
		case <-time.After(f.till - time.Since(r.began)):
		case <-r.over:
			return false
		}
	}
}

func (r *run) random(n int) int {
	r.mu.Lock()
	defer r.mu.Unlock()

	return r.chaos.IntN(n)
}

// do carries a call to the daemon, with all that can happen to it on its way.
func (r *run) do(ctx context.Context, call func() error) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()

	travel := func() error {
		if !r.waitWhileFrozen() {
			return libvirt.ErrUnreachable
		}

		if _, cut := r.now(partitioned); cut {
			<-ctx.Done()
			r.waitWhileFrozen()

			return libvirt.ErrUnreachable
		}

		select {
		case <-time.After(time.Duration(r.random(300)) * time.Millisecond):
			return nil
		case <-ctx.Done():
			return libvirt.ErrUnreachable
		}
	}

	if err := travel(); err != nil {
		return err
	}

	r.secrets.mu.Lock()
	err := call()
	r.secrets.mu.Unlock()

	if lost := travel(); lost != nil {
		return lost
	}

	r.waitWhileFrozen()

	return err
}

func (r *run) DefineOwnSecret(ctx context.Context, s libvirt.OwnSecret) error {
	return r.do(ctx, func() error { return r.define(s) })
}

func (r *run) SetOwnSecretValue(ctx context.Context, s libvirt.OwnSecret) error {
	return r.do(ctx, func() error { return r.set(s) })
}

func (r *run) UndefineOwnSecret(ctx context.Context, s libvirt.OwnSecret) error {
	return r.do(ctx, func() error { return r.undefine(s) })
}

func (r *run) OwnSecret(ctx context.Context, usageID string) (found *libvirt.OwnSecret, err error) {
	err = r.do(ctx, func() error {
		s, ok := r.all[usageID]
		if !ok {
			return libvirt.ErrNotFound
		}

		found = &s

		return nil
	})

	return found, err
}

func (r *run) OwnSecretIDs(ctx context.Context, prefix string) (ids []string, err error) {
	err = r.do(ctx, func() error {
		for id := range r.all {
			if strings.HasPrefix(id, prefix) {
				ids = append(ids, id)
			}
		}

		slices.Sort(ids)

		return nil
	})

	return ids, err
}

// history is who acted, in turn.
type history struct {
	mu   sync.Mutex
	last string
	past map[string]bool
	// both are those who acted after another one had.
	both []string
	acts int
}

func (h *history) act(who string) {
	h.mu.Lock()
	defer h.mu.Unlock()

	h.acts++

	if h.last == who {
		return
	}

	if h.past[who] {
		h.both = append(h.both, fmt.Sprintf("%s acts at %s, after %s has", who, time.Now().Format(time.TimeOnly), h.last))
	}

	h.past[h.last] = true
	h.last = who
}

// work takes the lease and uses it, again and again until all is over.
func (r *run) work(ctx context.Context, h *history) {
	lifetime, die := context.WithCancel(ctx)
	k := NewKeeper(lifetime, fmt.Sprint("run ", r.id), slog.New(slog.DiscardHandler), nil)

	defer k.Wait()
	defer die()

	for turn := 0; ctx.Err() == nil && r.waitWhileFrozen(); turn++ {
		order, cancel := context.WithTimeout(ctx, time.Duration(5+r.random(90))*time.Second)

		held, l, err := k.Take(order, r, "vm", "changing")
		if err != nil {
			cancel()

			_ = admission.Pause(ctx, time.Second)

			continue
		}

		after, stop := CleanupContext(held, time.Minute) // What is cleaned up continues when the order is cancelled.

		for range 1 + r.random(40) {
			if r.waitWhileFrozen() && Confirm(after) == nil && ctx.Err() == nil {
				// The call is on its way, which nothing stops any more.
				time.Sleep(time.Duration(r.random(300)) * time.Millisecond) //nolint:forbidigo // it is simulated time
				h.act(fmt.Sprintf("run %d in turn %d", r.id, turn))
			}

			_ = admission.Pause(after, time.Duration(r.random(2000))*time.Millisecond)
		}

		stop()
		l.Release()
		cancel()

		_ = admission.Pause(ctx, time.Duration(r.random(3000))*time.Millisecond)
	}
}

// Whatever befalls the runs, no two of them change a VM at one time, and what a dead one left is taken over.
func TestProperty_twoRunsNeverActAtOneTime(t *testing.T) {
	t.Parallel()

	const length = 6 * time.Minute

	faults := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) fault {
		from := rapid.IntRange(0, int(length/time.Second)).Draw(rt, "from")
		f := fault{
			kind: rapid.SampledFrom([]string{frozen, frozen, partitioned, partitioned, killed}).Draw(rt, "kind"),
			from: time.Duration(from) * time.Second,
		}
		f.till = f.from + time.Duration(rapid.IntRange(500, 70_000).Draw(rt, "for"))*time.Millisecond

		return f
	}), 0, 5)

	rapid.Check(t, func(rt *rapid.T) {
		seed := rapid.Uint64().Draw(rt, "seed")
		each := rapid.SliceOfN(faults, 2, 4).Draw(rt, "runs")

		var (
			h    history
			last error
		)

		synctest.Test(t, func(t *testing.T) {
			h = history{past: map[string]bool{}}
			ctx, cancel := context.WithTimeout(t.Context(), length)
			over, store, began := make(chan struct{}), &secrets{all: map[string]libvirt.OwnSecret{}}, time.Now()

			var all sync.WaitGroup

			for id, faults := range each {
				r := &run{
					secrets: store, id: id, faults: faults, began: began, over: over,
					chaos: rand.New(rand.NewPCG(seed, uint64(id))), //nolint:gosec // it needs no secrecy
				}

				all.Go(func() { r.work(ctx, &h) })
			}

			<-ctx.Done()
			cancel()
			// Who lives has ended by now, whatever it waited for.
			time.Sleep(3 * time.Minute) //nolint:forbidigo // it is simulated time

			ctx, cancel = context.WithTimeout(t.Context(), 2*TakeoverTime)
			defer cancel()

			r := &run{
				secrets: store, id: -1, began: began, over: over,
				chaos: rand.New(rand.NewPCG(seed, 99)), //nolint:gosec // it needs no secrecy
			}

			var l *Held

			keeper := NewKeeper(t.Context(), "the last", slog.New(slog.DiscardHandler), nil)
			if _, l, last = keeper.Take(ctx, r, "vm", "ending"); last == nil {
				l.Release()
			}

			close(over)
			all.Wait()
		})

		if len(h.both) > 0 {
			rt.Fatalf("two runs acted at one time: %v", h.both)
		}

		if last != nil {
			rt.Fatalf("what was left behind is not taken over: %v", last)
		}
	})
}

// The last part of an operation ends a fixed time after the operation, whenever it began and however that ended. As
// long as the operation continues, so does its last part.
func TestFinish(t *testing.T) {
	t.Parallel()

	const limit = time.Minute

	for name, tt := range map[string]struct {
		cancelled, begun, ends time.Duration
	}{
		"its time is over":             {limit, limit, limit + finishTimeout},
		"its time was over before":     {limit, limit + 10*time.Second, limit + finishTimeout},
		"it was cancelled":             {30 * time.Second, 30 * time.Second, 30*time.Second + finishTimeout},
		"its time is over meanwhile":   {limit, time.Second, limit + finishTimeout},
		"it is cancelled meanwhile":    {30 * time.Second, time.Second, 30*time.Second + finishTimeout},
		"nothing is left of the grace": {limit, 2 * limit, 2 * limit},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()

				ctx, cancel := context.WithTimeout(t.Context(), limit)
				defer cancel()

				time.AfterFunc(tt.cancelled, cancel)
				_ = admission.Pause(t.Context(), tt.begun)

				last, free := GraceContext(ctx)

				<-last.Done()

				if ended := time.Since(began); ended != tt.ends {
					t.Errorf("it ended after %v, want %v", ended, tt.ends)
				}

				free() // Were a goroutine left that waits, synctest would tell.
			})
		})
	}
}
