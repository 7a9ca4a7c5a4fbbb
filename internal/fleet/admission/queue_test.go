package admission

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Whatever comes in whatever order, no limit is exceeded, and every waiter gets through.
func TestQueue_keepsItsLimits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := NewQueue(Limits{PerFleet: 3, OutboundPerHost: 2, InboundPerHost: 1}, nil)

		var (
			wg   sync.WaitGroup
			mu   sync.Mutex
			now  = map[string]int{}
			most = map[string]int{}
		)

		count := func(by int, keys ...string) {
			mu.Lock()
			defer mu.Unlock()

			for _, k := range keys {
				now[k] += by
				most[k] = max(most[k], now[k])
			}
		}

		for i := range 60 {
			from, to := fmt.Sprint("a", i%3), fmt.Sprint("b", i%5)

			wg.Go(func() {
				leave, err := q.Enter(t.Context(), fmt.Sprint(i), from, to, i%2)
				if err != nil {
					t.Error(err)

					return
				}

				count(1, "all", from, to)
				<-time.After(time.Second)
				count(-1, "all", from, to)
				leave()
				leave()
			})
		}

		wg.Wait()

		for key, n := range most {
			limit := map[byte]int{'a': 2, 'b': 1}[key[0]]
			if key == "all" {
				limit = 3
			}

			if n > limit {
				t.Errorf("%d at a time for %s, want %d at most", n, key, limit)
			}
		}

		if q.ours.total != 0 || len(q.waiting) > 0 || q.Inbound("b0") != 0 {
			t.Errorf("left over: %d moving, %d waiting", q.ours.total, len(q.waiting))
		}
	})
}

// The urgent go first, then who came first; who waits for a host that is busy does not hold up the others; who gives up
// waits no longer.
func TestQueue_order(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := NewQueue(Limits{PerFleet: 9, OutboundPerHost: 1, InboundPerHost: 9}, nil)

		first, err := q.Enter(t.Context(), "first", "a", "b", 0)
		if err != nil {
			t.Fatal(err)
		}

		var (
			wg     sync.WaitGroup
			order  []string
			ctx, f = context.WithCancelCause(t.Context())
			tired  = errors.New("tired")
		)

		for _, m := range []struct {
			name, from string
			priority   int
			ctx        context.Context //nolint:containedctx // a table of calls
		}{
			{"low", "a", 0, t.Context()},
			{"gives up", "a", 99, ctx},
			{"urgent", "a", PriorityUser, t.Context()},
			{"urgent too", "a", PriorityUser, t.Context()},
			{"elsewhere", "c", 0, t.Context()},
		} {
			wg.Go(func() {
				leave, err := q.Enter(m.ctx, m.name, m.from, "b", m.priority) //nolint:contextcheck // one of them ends
				if m.ctx == ctx {
					if !errors.Is(err, tired) {
						t.Errorf("who gives up: %v", err)
					}

					return
				}

				if err != nil {
					t.Error(err)

					return
				}

				order = append(order, m.name)
				leave()
			})
			synctest.Wait()
		}

		if n := q.Inbound("b"); n != 5 {
			t.Errorf("%d are heading for b, want 5", n)
		}

		f(tired)
		synctest.Wait()
		first()
		wg.Wait()

		if want := []string{"elsewhere", "urgent", "urgent too", "low"}; !slices.Equal(order, want) {
			t.Errorf("order %q, want %q", order, want)
		}
	})
}

// What others move takes up the limits too, but for what is our own; who waits for it looks again, now and then.
func TestQueue_othersCount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex

		looks := 0
		moving := map[string]Route{"theirs": {"a", "b"}}
		q := NewQueue(Limits{PerFleet: 9, OutboundPerHost: 9, InboundPerHost: 2},
			func(context.Context) map[string]Route {
				mu.Lock()
				defer mu.Unlock()

				looks++

				return maps.Clone(moving)
			})

		leave, err := q.Enter(t.Context(), "ours", "a", "b", 0)
		if err != nil {
			t.Fatal(err)
		}
		defer leave()

		mu.Lock()
		moving["ours"] = Route{"a", "b"}
		mu.Unlock()

		began := time.Now()

		time.AfterFunc(7*time.Second, func() {
			mu.Lock()
			defer mu.Unlock()

			delete(moving, "theirs")
		})

		second, err := q.Enter(t.Context(), "second", "c", "b", 0)
		if err != nil {
			t.Fatal(err)
		}
		defer second()

		if took := time.Since(began); took < 7*time.Second || took > 10*time.Second || looks > 5 {
			t.Errorf("it waited for %v, and looked %d times", took, looks)
		}

		tired, give := context.WithTimeout(t.Context(), time.Second)
		defer give()

		if _, err := q.Enter(tired, "third", "c", "b", 0); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("beyond the limits: %v", err)
		}
	})
}
