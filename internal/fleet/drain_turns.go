package fleet

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

const (
	// retryAfter is how long after the first failure something is tried again. It
	// doubles up to retryLimit. Both are KubeVirt's.
	retryAfter = 20 * time.Second
	retryLimit = 320 * time.Second
)

// turns lets so many tries be made at a time, in the order in which they are
// asked for. Whoever waits to try again has none, so that what fails again and
// again keeps nobody else from having theirs. Nil: nobody waits.
type turns struct{ free *semaphore.Weighted }

func newTurns(atOnce int) *turns { return &turns{free: semaphore.NewWeighted(int64(atOnce))} }

// enter waits for a turn. leave ends it.
func (t *turns) enter(ctx context.Context) (leave func(), err error) {
	if t == nil {
		return func() {}, nil
	}

	if err := t.free.Acquire(ctx, 1); err != nil {
		return nil, context.Cause(ctx)
	}

	return sync.OnceFunc(func() { t.free.Release(1) }), nil
}

// retry is something that is tried until it works.
type retry struct {
	// try does it once. again, which may be nil, says whether there is a point in
	// trying again after that error, and after how long.
	try   func(context.Context) error
	again func(err error, after time.Duration) bool
	// prepare is called before each try but the first.
	prepare func(context.Context)
}

// run tries, with a turn for each try, until it works, there is no point in it
// or ctx ends, and returns the last try's error. leave ends the first turn, which
// the caller has.
func (r retry) run(ctx context.Context, t *turns, leave func()) error {
	for wait := retryAfter; ; wait = min(2*wait, retryLimit) {
		err := r.try(ctx)
		leave()

		if err == nil || ctx.Err() != nil || !r.again(err, wait) || pause(ctx, wait) != nil {
			return err
		}

		r.prepare(ctx)

		var turnErr error
		if leave, turnErr = t.enter(ctx); turnErr != nil {
			return err
		}
	}
}
