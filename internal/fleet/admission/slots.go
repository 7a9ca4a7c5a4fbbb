package admission

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

const (
	// retryAfter is how long after the first failure something is tried again. It doubles up to retryLimit. Both are
	// KubeVirt's.
	retryAfter = 20 * time.Second
	retryLimit = 320 * time.Second
)

// Slots lets so many tries be made at a time, in the order in which they are asked for. Whoever waits to try again has
// none, so that what fails again and again doesn't keep others from having theirs. Nil: none waits.
type Slots struct{ free *semaphore.Weighted }

// NewSlots lets that many go at once.
func NewSlots(atOnce int) *Slots { return &Slots{free: semaphore.NewWeighted(int64(atOnce))} }

// Enter waits for a turn. leave ends it.
func (s *Slots) Enter(ctx context.Context) (leave func(), err error) {
	if s == nil {
		return func() {}, nil
	}

	if err := s.free.Acquire(ctx, 1); err != nil {
		return nil, context.Cause(ctx)
	}

	return sync.OnceFunc(func() { s.free.Release(1) }), nil
}

// Retry is something that is tried until it works.
type Retry struct {
	// Try does it once. Again says whether there is a point in trying again after that error; after is how long that takes
	// to come.
	Try   func(context.Context) error
	Again func(err error, after time.Duration) bool
	// Prepare is called before each try but the first.
	Prepare func(context.Context)
}

// Run tries, with a turn for each try, until it works, there is no point in it or ctx ends, and returns the last try's
// error. leave ends the first turn, which the caller has.
func (r Retry) Run(ctx context.Context, slots *Slots, leave func()) error {
	for wait := retryAfter; ; wait = min(2*wait, retryLimit) {
		err := r.Try(ctx)
		leave()

		if err == nil || ctx.Err() != nil || !r.Again(err, wait) {
			return err
		}

		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return err
		}

		r.Prepare(ctx)

		var turnErr error
		if leave, turnErr = slots.Enter(ctx); turnErr != nil {
			return err
		}
	}
}
