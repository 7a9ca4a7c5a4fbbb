package inventory

import (
	"context"
	"sync"
)

// asked are the answers of a host to questions that many VMs ask, as of a view. One of them asks the host. The others
// wait for the same answer, and each of them no longer than its own context lasts: a host may hang.
type asked[T any] struct {
	mu      sync.Mutex
	answers map[string]*answer[T]
}

// answer is complete once done is closed.
type answer[T any] struct {
	done  chan struct{}
	value T
	err   error
	// left says that the one who asked didn't wait for the host.
	left bool
}

// get returns the answer to a question, and calls ask if there is none yet. An error is kept for those who wait for the
// answer, and not for later ones.
func (a *asked[T]) get(
	ctx context.Context, question string, ask func(context.Context) (T, error),
) (value T, err error) {
	for {
		is, first := a.of(question)
		if first {
			is.value, is.err = ask(ctx)
			is.left = ctx.Err() != nil
			a.conclude(question, is)

			return is.value, is.err
		}

		select {
		case <-is.done:
		case <-ctx.Done():
			return value, context.Cause(ctx)
		}

		if is.err == nil || !is.left {
			return is.value, is.err
		}
	}
}

// of returns the answer to a question, and whether the caller has to ask the host for it.
func (a *asked[T]) of(question string) (is *answer[T], first bool) {
	a.mu.Lock()
	defer a.mu.Unlock()

	if is := a.answers[question]; is != nil {
		return is, false
	}

	if a.answers == nil {
		a.answers = make(map[string]*answer[T])
	}

	is = &answer[T]{done: make(chan struct{})}
	a.answers[question] = is

	return is, true
}

// conclude completes an answer.
func (a *asked[T]) conclude(question string, is *answer[T]) {
	a.mu.Lock()
	defer a.mu.Unlock()

	if is.err != nil {
		delete(a.answers, question)
	}

	close(is.done)
}
