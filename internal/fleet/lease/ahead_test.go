package lease

import (
	"bytes"
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

// witness is a run as it reaches one host, together with what it has read there. It notes each lease that is taken over
// too early.
type witness struct {
	*run
	host  string
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

// befalls is a fault of a run: on is the host that it doesn't reach, "" for both.
type befalls struct {
	fault
	on string
}

// twoHosts returns two hosts without leases.
func twoHosts() map[string]*secrets {
	return map[string]*secrets{"a": {all: map[string]libvirt.OwnSecret{}}, "b": {all: map[string]libvirt.OwnSecret{}}}
}

// newRun returns a process as it reaches each of the hosts.
func newRun(
	hosts map[string]*secrets, id int, seed uint64, faults []befalls, began time.Time, over chan struct{},
) map[string]*witness {
	all := map[string]*witness{}

	for host, store := range hosts {
		all[host] = &witness{host: host, reads: map[string]*sight{}, run: &run{
			secrets: store, id: id, began: began, over: over,
			chaos: rand.New(rand.NewPCG(seed, uint64(id)<<8|uint64(host[0]))), //nolint:gosec // it needs no secrecy
		}}

		for _, f := range faults {
			if f.on == "" || f.on == host {
				all[host].faults = append(all[host].faults, f.fault)
			}
		}
	}

	return all
}

// newKeeper returns the keeper of a run.
func newKeeper(lifetime context.Context, owner string, on map[string]*witness) *Keeper {
	return NewKeeper(lifetime, owner, slog.New(slog.DiscardHandler), func() []Store { return []Store{on["a"], on["b"]} })
}

func (w *witness) Name() string { return w.host }

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

// A killed run leaves leases on two hosts. The next run wants one after another. While it waits for the first, it sees
// that the others are abandoned, too. It leaves alone what a run that lives has there, also if that has the same name.
func TestTake_oneAfterAnotherOfAKilledRun(t *testing.T) {
	t.Parallel()

	const dead, later = 5 * time.Second, 5 * time.Minute

	for name, tt := range map[string]struct {
		fault befalls
		other string // who has all but the first lease
		slow  int    // how many of the leases are watched only when they are wanted
	}{
		"killed":                   {befalls{fault{kind: killed, from: dead}, ""}, "alice", 1},
		"frozen":                   {befalls{fault{frozen, dead, later}, ""}, "alice", 1},
		"doesn't reach the hosts":  {befalls{fault{partitioned, dead, later}, ""}, "alice", 1},
		"the others are another's": {befalls{fault{kind: killed, from: dead}, ""}, "carol", 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began, over, hosts := time.Now(), make(chan struct{}), twoHosts()
				lifetime, die := context.WithCancel(t.Context())
				wanted := []string{"a first", "a second", "b first", "b second"}

				var keepers []*Keeper

				take := func(owner string, on map[string]*witness, name string) (context.Context, *Held) {
					host, object, _ := strings.Cut(name, " ")
					k := newKeeper(lifetime, owner, on)
					keepers = append(keepers, k)

					held, l, err := k.Take(t.Context(), on[host], object, "changing")
					if err != nil {
						t.Fatal(err)
					}

					return held, l
				}

				for i, name := range wanted {
					owner := tt.other
					if i == 0 {
						owner = "alice"
					}

					take(owner, newRun(hosts, i, 1, []befalls{tt.fault}, began, over), name)
				}

				meanwhile := []string{"a fast", "b fast"} // wanted while the run waits for the first
				for i, name := range meanwhile {
					take("alice", newRun(hosts, 6+i, 1, []befalls{tt.fault}, began, over), name)
				}

				living, _ := take("alice", newRun(hosts, 8, 1, nil, began, over), "b third")
				_ = admission.Pause(t.Context(), 10*time.Second-time.Since(began))
				his := newRun(hosts, 9, 1, nil, began, over)
				bob := newKeeper(lifetime, "bob", his)

				var said bytes.Buffer

				bob.log = slog.New(slog.NewTextHandler(&said, nil))

				var all sync.WaitGroup

				for i, name := range meanwhile {
					host, object, _ := strings.Cut(name, " ")

					all.Go(func() {
						_ = admission.Pause(t.Context(), time.Duration(13+3*i)*time.Second)

						_, l, err := bob.Take(t.Context(), his[host], object, "changing")
						if err != nil {
							t.Error(err)

							return
						}

						l.Release()
					})
				}

				for i, name := range wanted {
					host, object, _ := strings.Cut(name, " ")
					start := time.Now()

					_, l, err := bob.Take(t.Context(), his[host], object, "changing")
					if err != nil {
						t.Fatal(err)
					}

					if took := time.Since(start); took < settleTime || (took >= TakeoverTime) != (i < tt.slow) {
						t.Errorf("%s: taken after %v, want all of it: %v", name, took, i < tt.slow)
					}

					l.Release()
				}

				all.Wait()

				for _, name := range slices.Concat(wanted, meanwhile) {
					host, object, _ := strings.Cut(name, " ")

					waits := fmt.Sprintf(`msg="waiting for another run's lease" host=%s lease=%s `, host, object)
					if n := strings.Count(said.String(), waits); n != 1 {
						t.Errorf("%s: said %d times that it waits; want once", name, n)
					}

					_, line, _ := strings.Cut(said.String(), waits)
					line, _, _ = strings.Cut(line, "\n")

					if _, left, ok := strings.Cut(line, " taken_over_in="); !ok || name == wanted[0] && left != TakeoverTime.String() {
						t.Errorf("%s: said %q; want after which time the lease is taken over", name, line)
					}
				}

				if err := Confirm(living); err != nil || Lost(living) != nil {
					t.Errorf("the lease of a run that lives: %v", err)
				}

				if hasty := slices.Concat(his["a"].hasty, his["b"].hasty); len(hasty) > 0 {
					t.Errorf("taken over too early: %q", hasty)
				}

				die()
				close(over)

				for _, k := range append(keepers, bob) {
					k.Wait()
				}
			})
		})
	}
}

// Whoever asks first whether a lease was left behind takes it over afterwards without watching it once more. A run that
// lives is named within a few renewals. Who asked too briefly, a while ago, knows nothing.
func TestLiveHolder_thenTake(t *testing.T) {
	t.Parallel()

	for name, tt := range map[string]struct {
		dies bool
		asks time.Duration
	}{
		"killed": {true, time.Minute}, "lives": {false, time.Minute}, "asked too briefly": {true, 15 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began, over, hosts := time.Now(), make(chan struct{}), twoHosts()
				lifetime, die := context.WithCancel(t.Context())

				var faults []befalls
				if tt.dies {
					faults = []befalls{{fault{kind: killed, from: 5 * time.Second}, ""}}
				}

				hers, his := newRun(hosts, 1, 1, faults, began, over), newRun(hosts, 2, 1, nil, began, over)
				alice, bob := newKeeper(lifetime, "alice", hers), newKeeper(lifetime, "bob", his)

				_, held, err := alice.Take(t.Context(), hers["a"], "vm", "changing")
				if err != nil {
					t.Fatal(err)
				}

				_ = admission.Pause(t.Context(), 10*time.Second-time.Since(began))

				asking, cancel := context.WithTimeout(t.Context(), tt.asks)
				brief := tt.asks < time.Minute

				who, err := bob.LiveHolder(asking, his["a"], "vm")
				if (err != nil) != brief || strings.HasPrefix(who, "alice is changing it") == tt.dies {
					t.Errorf("the holder, after %v: %q, %v", time.Since(began), who, err)
				}

				cancel()

				if brief {
					_ = admission.Pause(t.Context(), time.Minute)
				}

				if !tt.dies {
					held.Release()
				}

				start := time.Now()

				_, l, err := bob.Take(t.Context(), his["a"], "vm", "changing")
				if took := time.Since(start); err != nil || (took > TakeoverTime) != brief || tt.dies && took < settleTime {
					t.Fatalf("taken after %v: %v", took, err)
				}

				l.Release()

				if len(his["a"].hasty) > 0 {
					t.Errorf("taken over too early: %q", his["a"].hasty)
				}

				die()
				close(over)
				alice.Wait()
				bob.Wait()
			})
		})
	}
}

// A killed run leaves the leases of many VMs on two hosts. Who asks for the holder of each, one VM after another, waits
// for the first one, and meanwhile the others are watched. Each further answer costs one read and no wait.
func TestLiveHolder_manyOfAKilledRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const many, dead = 40, time.Minute

		began, over, hosts := time.Now(), make(chan struct{}), twoHosts()
		lifetime, die := context.WithCancel(t.Context())
		hers := newRun(hosts, 1, 1, []befalls{{fault{kind: killed, from: dead}, ""}}, began, over)
		his := newRun(hosts, 2, 1, nil, began, over)
		alice, bob := newKeeper(lifetime, "alice", hers), newKeeper(lifetime, "bob", his)
		name := func(i int) (host, object string) { return []string{"a", "b"}[i%2], fmt.Sprintf("vm%d", i) }

		for i := range many {
			host, object := name(i)
			if _, _, err := alice.Take(t.Context(), hers[host], object, "moving"); err != nil {
				t.Fatal(err)
			}
		}

		_ = admission.Pause(t.Context(), 2*dead-time.Since(began))

		var waited, read time.Duration

		for i := range many {
			host, object := name(i)
			start := time.Now()

			if who, err := bob.LiveHolder(t.Context(), his[host], object); err != nil || who != "" {
				t.Errorf("%s: %q, %v", object, who, err)
			}

			waited += time.Since(start)
			start = time.Now()

			if _, err := Current(t.Context(), his[host], object); err != nil {
				t.Error(err)
			}

			read += time.Since(start)
		}

		// The first one is read unchangedPolls times, and the watch of the others begins silentPolls later.
		if most := (unchangedPolls+silentPolls)*(pollInterval+read/many) + read + 5*time.Second; waited > most {
			t.Errorf("%d answers took %v, of which reads %v; want %v at most", many, waited, read, most)
		}

		die()
		close(over)
		alice.Wait()
		bob.Wait()
	})
}

// Whatever befalls runs that take several leases one after another, no two of them change an object at one time. Each
// run takes over only what it has itself read unchanged for the full time, and what dead ones left is taken over.
func TestProperty_severalLeasesOfARun(t *testing.T) {
	t.Parallel()

	const length = 6 * time.Minute

	names := []string{"a vm", "a other", "b vm", "b volume:x"}

	faults := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) (f befalls) {
		f.kind = rapid.SampledFrom([]string{frozen, frozen, partitioned, partitioned, killed}).Draw(rt, "kind")
		if f.kind == partitioned {
			f.on = rapid.SampledFrom([]string{"", "a", "b"}).Draw(rt, "on")
		}

		f.from = time.Duration(rapid.IntRange(0, int(length/time.Second)).Draw(rt, "from")) * time.Second
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
			over, hosts, began := make(chan struct{}), twoHosts(), time.Now()
			all := make([]map[string]*witness, len(each)+1)

			for _, name := range names {
				acts[name] = &history{past: map[string]bool{}}
			}

			var working sync.WaitGroup

			for id, faults := range each {
				all[id] = newRun(hosts, id, seed, faults, began, over)

				working.Go(func() { workOnSeveral(ctx, all[id], fmt.Sprintf(owners, id), names, acts) })
			}

			<-ctx.Done()
			cancel()
			// Who lives has ended by now, whatever it waited for.
			time.Sleep(3 * time.Minute) //nolint:forbidigo // it is simulated time

			lifetime, die := context.WithCancel(t.Context())
			r := newRun(hosts, 99, seed, nil, began, over)
			keeper := newKeeper(lifetime, "the last", r)
			all[len(each)] = r

			for _, name := range names {
				ctx, cancel := context.WithTimeout(t.Context(), 3*TakeoverTime)

				host, object, _ := strings.Cut(name, " ")

				_, l, err := keeper.Take(ctx, r[host], object, "ending")
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

			for _, on := range all {
				hasty = slices.Concat(hasty, on["a"].hasty, on["b"].hasty)
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

// workOnSeveral carries out several operations of a run at once.
func workOnSeveral(
	ctx context.Context, on map[string]*witness, owner string, names []string, acts map[string]*history,
) {
	lifetime, die := context.WithCancel(ctx)
	k := newKeeper(lifetime, owner, on)

	defer k.Wait()
	defer die()

	var all sync.WaitGroup
	defer all.Wait()

	for operation := range 2 {
		all.Go(func() { operate(ctx, k, on, fmt.Sprintf("operation %d of run %d", operation, on["a"].id), names, acts) })
	}
}

// operate takes some of the leases, one after another, and uses them, again and again until all is over.
func operate(
	ctx context.Context, k *Keeper, on map[string]*witness, who string, names []string, acts map[string]*history,
) {
	w := on["a"]

	for turn := 0; ctx.Err() == nil && w.waitWhileFrozen(); turn++ {
		order, cancel := context.WithTimeout(ctx, time.Duration(5+w.random(120))*time.Second)
		wanted := slices.DeleteFunc(slices.Clone(names), func(string) bool { return w.random(2) == 0 })
		held, release := order, []func(){}

		for _, name := range wanted {
			host, object, _ := strings.Cut(name, " ")

			next, l, err := k.Take(held, on[host], object, "changing")
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
					acts[name].act(fmt.Sprintf("%s in turn %d", who, turn))
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
