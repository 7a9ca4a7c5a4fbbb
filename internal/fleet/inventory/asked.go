package inventory

import (
	"context"
	"sync"
)

// asked are the answers of a host to questions that many VMs ask. One of the callers asks the host. The others wait for
// the same answer, and each of them no longer than its own context lasts: a host may hang.
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
	return a.getIf(ctx, question, func(T) bool { return true }, ask)
}

// getIf is get for answers that go out of date: it asks again unless the answer that is there is current.
func (a *asked[T]) getIf(
	ctx context.Context, question string, current func(T) bool, ask func(context.Context) (T, error),
) (value T, err error) {
	for {
		is, first := a.of(question, current)
		if first {
			return a.complete(ctx, question, is, ask)
		}

		select {
		case <-is.done:
		case <-ctx.Done():
			return value, context.Cause(ctx)
		}

		if is.err == nil && current(is.value) || is.err != nil && !is.left {
			return is.value, is.err
		}
	}
}

// seen returns the last answer to a question. It doesn't wait: there is none while the host is being asked.
func (a *asked[T]) seen(question string) (value T, is bool) {
	a.mu.Lock()
	defer a.mu.Unlock()

	if last := a.answers[question]; last.isComplete() {
		return last.value, true
	}

	return value, false
}

// of returns the answer to a question, and whether the caller has to ask the host for it.
func (a *asked[T]) of(question string, current func(T) bool) (is *answer[T], first bool) {
	a.mu.Lock()
	defer a.mu.Unlock()

	if is := a.answers[question]; is != nil && (!is.isComplete() || current(is.value)) {
		return is, false
	}

	if a.answers == nil {
		a.answers = make(map[string]*answer[T])
	}

	is = &answer[T]{done: make(chan struct{})}
	a.answers[question] = is

	return is, true
}

// complete asks the host. If ask panics, no caller waits for its answer afterwards.
func (a *asked[T]) complete(
	ctx context.Context, question string, is *answer[T], ask func(context.Context) (T, error),
) (T, error) {
	is.err, is.left = context.Canceled, true

	defer func() {
		a.mu.Lock()
		defer a.mu.Unlock()

		if is.err != nil {
			delete(a.answers, question)
		}

		close(is.done)
	}()

	is.value, is.err = ask(ctx)
	is.left = ctx.Err() != nil

	return is.value, is.err
}

// isComplete reports whether there is an answer.
func (is *answer[T]) isComplete() bool {
	if is == nil {
		return false
	}

	select {
	case <-is.done:
		return true
	default:
		return false
	}
}
