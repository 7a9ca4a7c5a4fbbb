package admission

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// errLost is why those end who had a lock.
var errLost = errors.New("the lock is lost")

// What has begun outlasts a cancel, and nothing else: neither the end of the time that there is in any case, nor the
// loss of a lock. Once it is over nothing more begins.
func TestLasting(t *testing.T) {
	t.Parallel()

	type do = func(begin, over func())

	nothing := func(_, _ func()) {}
	begins := func(begin, _ func()) { begin() }
	ends := func(_, over func()) { over() }
	isOver := func(begin, over func()) { begin(); over() }
	beginsAgain := func(begin, over func()) { begin(); over(); begin() }

	for name, tt := range map[string]struct {
		first  do    // at once
		cancel error // after a minute
		then   do    // after two
		// lasts is how long the context does, why how it ends.
		lasts time.Duration
		why   error
	}{
		"nothing has begun":     {nothing, context.Canceled, begins, time.Minute, context.Canceled},
		"it was over":           {isOver, context.Canceled, nothing, time.Minute, context.Canceled},
		"it comes to its end":   {begins, context.Canceled, ends, 2 * time.Minute, context.Canceled},
		"another one has begun": {beginsAgain, context.Canceled, ends, 2 * time.Minute, context.Canceled},
		"it takes too long":     {begins, context.Canceled, nothing, time.Hour, context.DeadlineExceeded},
		"the lock is lost":      {begins, errLost, nothing, time.Minute, errLost},
		"not cancelled":         {begins, nil, ends, time.Hour, context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()

				limited, stop := context.WithTimeout(t.Context(), time.Hour)
				defer stop()

				ctx, cancel := context.WithCancelCause(limited)
				defer cancel(nil)

				own, over, free := WithGrace(ctx)
				begin := func() { MarkStarted(own) }

				time.AfterFunc(2*time.Minute, func() { tt.then(begin, over) })
				tt.first(begin, over)

				if tt.cancel != nil {
					time.AfterFunc(time.Minute, func() { cancel(tt.cancel) })
				}

				<-own.Done()

				if lasted := time.Since(began); lasted != tt.lasts || !errors.Is(context.Cause(own), tt.why) {
					t.Errorf("it ended after %v with %v; want %v, %v", lasted, context.Cause(own), tt.lasts, tt.why)
				}

				free() // Were a goroutine left that waits, synctest would tell.
			})
		})
	}
}

// Nothing would bound what begins without a limit, so it ends when it is cancelled.
func TestLasting_withoutLimit(t *testing.T) {
	t.Parallel()

	ctx, cancel := context.WithCancel(t.Context())
	own, _, free := WithGrace(ctx)

	defer free()

	MarkStarted(own)
	cancel()

	if !errors.Is(own.Err(), context.Canceled) {
		t.Errorf("it continues: %v", own.Err())
	}
}
