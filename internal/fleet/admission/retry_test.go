package admission

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

var errStubborn = errors.New("not now")

// Two that fail again and again don't keep others waiting, and each try has a turn.
func TestRetry_pausesHoldNoTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var (
			mu         sync.Mutex
			all        sync.WaitGroup
			now, most  int
			ended      []string
			tried      = map[string]int{}
			began      = time.Now()
			ours       = NewSlots(2)
			ctx, abort = context.WithTimeout(t.Context(), 5*time.Minute-time.Second)
		)
		defer abort()

		one := func(name string, takes time.Duration, fails bool) {
			leave, err := ours.Enter(ctx)
			if err != nil {
				t.Fatal(err)
			}

			all.Go(func() {
				err := Retry{
					Try: func(context.Context) error {
						mu.Lock()
						now++
						most = max(most, now)
						tried[name]++
						mu.Unlock()

						<-time.After(takes)

						mu.Lock()
						defer mu.Unlock()

						now--

						if fails {
							return errStubborn
						}

						return nil
					},
					Again:   func(error, time.Duration) bool { return true },
					Prepare: func(context.Context) {},
					Enter:   ours.Enter,
				}.Run(ctx, leave)

				mu.Lock()
				defer mu.Unlock()

				ended = append(ended, name)

				if fails != errors.Is(err, errStubborn) {
					t.Errorf("%s: %v", name, err)
				}
			})
		}

		one("stubborn", 100*time.Millisecond, true)
		one("mulish", 100*time.Millisecond, true)

		for _, name := range []string{"a", "b", "c", "d"} {
			one(name, time.Second, false)
		}

		if waited := time.Since(began); waited > retryAfter {
			t.Errorf("the last one had to wait %v for its first try", waited)
		}

		all.Wait()

		if got := slices.Sorted(slices.Values(ended[:4])); !slices.Equal(got, []string{"a", "b", "c", "d"}) || most != 2 {
			t.Errorf("ended in the order %v, %d at a time", ended, most)
		}

		// After 20, 40, 80 seconds and so on, until the five minutes were over.
		if tried["stubborn"] != 4 || tried["mulish"] != 4 {
			t.Errorf("tried %v", tried)
		}
	})
}

// What there is no point in is tried once, and no other waits longer for a turn than there is time.
func TestRetry_givesUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ours, tries := NewSlots(1), 0

		leave, err := ours.Enter(t.Context())
		if err != nil {
			t.Fatal(err)
		}

		err = Retry{
			Try:   func(context.Context) error { tries++; return errStubborn },
			Again: func(error, time.Duration) bool { return false },
		}.Run(t.Context(), leave)
		if !errors.Is(err, errStubborn) || tries != 1 {
			t.Errorf("%d tries, %v", tries, err)
		}

		if _, err := ours.Enter(t.Context()); err != nil {
			t.Fatal(err)
		}

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()

		if _, err := ours.Enter(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a turn that was not given back: %v", err)
		}
	})
}
