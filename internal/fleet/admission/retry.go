package admission

import (
	"context"
	"time"
)

const (
	// retryAfter is how long after the first failure a step is tried again. The time doubles up to retryLimit. Both are
	// KubeVirt's.
	retryAfter = 20 * time.Second
	retryLimit = 320 * time.Second
)

// Retry is a step that is tried until it succeeds.
type Retry struct {
	// Try does the step once. Again reports whether another try makes sense after that error; after is the time until that
	// try.
	Try   func(context.Context) error
	Again func(err error, after time.Duration) bool
	// Prepare is called before each try but the first, and then Enter, which waits for the slot of that try. leave
	// releases the slot.
	Prepare func(context.Context)
	Enter   func(context.Context) (leave func(), err error)
}

// Run tries the step, with a slot for each try, until it succeeds, Again returns false or ctx ends. It returns the
// error of the last try. leave releases the first slot, which the caller has.
func (r Retry) Run(ctx context.Context, leave func()) error {
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
		if leave, turnErr = r.Enter(ctx); turnErr != nil {
			return err
		}
	}
}
