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

// witness is a run together with what it has read. It notes each lease that is taken over too early.
type witness struct {
	*run
	mu    sync.Mutex
	reads map[string]*sight // by the UUID of the secret
	hasty []string
}

// sight is how often the run has read one value of a secret, reads counted that are pollInterval apart.
type sight struct {
	value string
	last  time.Time
	count int
}

func newRun(store *secrets, id int, seed uint64, faults []fault, began time.Time, over chan struct{}) *witness {
	return &witness{reads: map[string]*sight{}, run: &run{
		secrets: store, id: id, faults: faults, began: began, over: over,
		chaos: rand.New(rand.NewPCG(seed, uint64(id))), //nolint:gosec // it needs no secrecy
	}}
}

func (w *witness) OwnSecret(ctx context.Context, usageID string) (*libvirt.OwnSecret, error) {
	s, err := w.run.OwnSecret(ctx, usageID)
	if err != nil {
		return s, err
	}

	w.mu.Lock()
	defer w.mu.Unlock()

	now := time.Now()

	switch seen := w.reads[s.UUID]; {
	case seen == nil || seen.value != string(s.Value):
		w.reads[s.UUID] = &sight{value: string(s.Value), last: now}
	case now.Sub(seen.last) >= pollInterval:
		seen.last, seen.count = now, seen.count+1
	}

	return s, nil
}

func (w *witness) DefineOwnSecret(ctx context.Context, s libvirt.OwnSecret) error {
	if uuid, succeeds := strings.CutPrefix(s.UsageID, successorPrefix); succeeds {
		w.mu.Lock()
		if seen := w.reads[uuid]; seen == nil || seen.count < unchangedPolls {
			w.hasty = append(w.hasty, fmt.Sprintf("run %d at %v after %+v", w.id, time.Since(w.began), seen))
		}
		w.mu.Unlock()
	}

	return w.run.DefineOwnSecret(ctx, s)
}

// A killed run leaves many leases on a host. The next run wants one after another. While it waits for the first, it sees
// that the others are abandoned, too. It leaves alone what runs that live have there.
func TestTake_oneAfterAnotherOfAKilledRun(t *testing.T) {
	t.Parallel()

	for name, tt := range map[string]struct {
		faults []fault
		owner  string // of the other leases
		slow   int    // how many of the leases are watched from the beginning when they are wanted
	}{
		"killed":                     {[]fault{{kind: killed, from: 5 * time.Second}}, "alice", 1},
		"frozen":                     {[]fault{{kind: frozen, from: 5 * time.Second, till: 5 * time.Minute}}, "alice", 1},
		"the others are another's":   {[]fault{{kind: killed, from: 5 * time.Second}}, "carol", 2},
		"doesn't reach the host now": {[]fault{{partitioned, 5 * time.Second, 5 * time.Minute}}, "alice", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began, over := time.Now(), make(chan struct{})
				store := &secrets{all: map[string]libvirt.OwnSecret{}}
				dies, die := context.WithCancel(t.Context())
				alice := NewKeeper(dies, "alice", slog.New(slog.DiscardHandler))
				others := NewKeeper(dies, tt.owner, slog.New(slog.DiscardHandler))
				bob := NewKeeper(dies, "bob", slog.New(slog.DiscardHandler))
				hers := newRun(store, 1, 1, tt.faults, began, over)
				theirs := newRun(store, 2, 1, tt.faults, began, over)
				carols := newRun(store, 3, 1, nil, began, over) // lives
				his := newRun(store, 4, 1, nil, began, over)
				names := []string{"first", "second", "third", "fourth"}

				for i, name := range names {
					k, on := others, theirs
					if i == 0 {
						k, on = alice, hers
					}

					if _, _, err := k.Take(t.Context(), on, name, "changing"); err != nil {
						t.Fatal(err)
					}
				}

				live := NewKeeper(dies, "alice", slog.New(slog.DiscardHandler)) // that name occurs twice
				held, _, err := live.Take(t.Context(), carols, "living", "changing")
				if err != nil {
					t.Fatal(err)
				}

				_ = admission.Pause(t.Context(), 10*time.Second-time.Since(began))
				start := time.Now()

				for i, name := range names {
					_, l, err := bob.Take(t.Context(), his, name, "changing")
					if err != nil {
						t.Fatal(err)
					}

					if took := time.Since(start); took < settleTime || (took >= TakeoverTime) != (i < tt.slow) {
						t.Errorf("%s: taken after %v, want all of it: %v", name, took, i < tt.slow)
					}

					l.Release()

					start = time.Now()
				}

				if err := Confirm(held); err != nil || Lost(held) != nil {
					t.Errorf("the lease of a run that lives: %v", err)
				}

				if len(his.hasty) > 0 {
					t.Errorf("taken over too early: %q", his.hasty)
				}

				die()
				close(over)

				for _, k := range []*Keeper{alice, others, bob, live} {
					k.Wait()
				}
			})
		})
	}
}

// Whatever befalls runs that take several leases one after another, no two of them change an object at one time. Each
// run takes over only what it has itself read unchanged for the full time, and what dead ones left is taken over.
func TestProperty_severalLeasesOfARun(t *testing.T) {
	t.Parallel()

	const length = 6 * time.Minute

	names := []string{"vm", "other", "third", "volume:a"}

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
		owners := rapid.SampledFrom([]string{"run %d", "one name for all%.0d"}).Draw(rt, "owners")

		var (
			acts  = map[string]*history{}
			hasty []string
			last  error
		)

		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), length)
			over, store, began := make(chan struct{}), &secrets{all: map[string]libvirt.OwnSecret{}}, time.Now()
			all := make([]*witness, len(each))

			for _, name := range names {
				acts[name] = &history{past: map[string]bool{}}
			}

			var working sync.WaitGroup

			for id, faults := range each {
				all[id] = newRun(store, id, seed, faults, began, over)

				working.Go(func() { all[id].workOnSeveral(ctx, fmt.Sprintf(owners, id), names, acts) })
			}

			<-ctx.Done()
			cancel()
			// Who lives has ended by now, whatever it waited for.
			time.Sleep(3 * time.Minute) //nolint:forbidigo // it is simulated time

			lifetime, die := context.WithCancel(t.Context())
			keeper := NewKeeper(lifetime, "the last", slog.New(slog.DiscardHandler))
			r := newRun(store, 99, seed, nil, began, over)
			all = append(all, r)

			for _, name := range names {
				ctx, cancel := context.WithTimeout(t.Context(), 2*TakeoverTime)

				_, l, err := keeper.Take(ctx, r, name, "ending")
				if err == nil {
					l.Release()
				} else {
					last = err
				}

				cancel()
			}

			close(over)
			die()
			keeper.Wait()
			working.Wait()

			for _, w := range all {
				hasty = append(hasty, w.hasty...)
			}
		})

		for name, h := range acts {
			if len(h.both) > 0 {
				rt.Fatalf("two runs changed %s at one time: %v", name, h.both)
			}
		}

		if len(hasty) > 0 {
			rt.Fatalf("taken over too early: %q", hasty)
		}

		if last != nil {
			rt.Fatalf("what was left behind is not taken over: %v", last)
		}
	})
}

// workOnSeveral takes some of the leases, one after another, and uses them, again and again until all is over.
func (w *witness) workOnSeveral(ctx context.Context, owner string, names []string, acts map[string]*history) {
	lifetime, die := context.WithCancel(ctx)
	k := NewKeeper(lifetime, owner, slog.New(slog.DiscardHandler))

	defer k.Wait()
	defer die()

	for turn := 0; ctx.Err() == nil && w.waitWhileFrozen(); turn++ {
		order, cancel := context.WithTimeout(ctx, time.Duration(5+w.random(120))*time.Second)
		wanted := slices.DeleteFunc(slices.Clone(names), func(string) bool { return w.random(2) == 0 })
		held, release := order, []func(){}

		for _, name := range wanted {
			next, l, err := k.Take(held, w, name, "changing")
			if err != nil {
				wanted = nil

				break
			}

			held, release = next, append(release, l.Release)
		}

		for range 1 + w.random(40) {
			if len(wanted) > 0 && w.waitWhileFrozen() && Confirm(held) == nil && ctx.Err() == nil {
				// The call is on its way, which nothing stops any more.
				time.Sleep(time.Duration(w.random(300)) * time.Millisecond) //nolint:forbidigo // it is simulated time

				for _, name := range wanted {
					acts[name].act(fmt.Sprintf("run %d in turn %d", w.id, turn))
				}
			}

			_ = admission.Pause(held, time.Duration(w.random(2000))*time.Millisecond)
		}

		for _, free := range slices.Backward(release) {
			free()
		}

		cancel()

		_ = admission.Pause(ctx, time.Duration(w.random(3000))*time.Millisecond)
	}
}
