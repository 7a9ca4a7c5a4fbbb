package admission

import (
	"context"
	"errors"
	"sync/atomic"
)

// graceKey is where a context that was made by WithGrace has what MarkStarted calls.
type graceKey struct{}

// WithGrace returns a context that ends with ctx, except that a step which was started in it outlasts a cancel of ctx:
// from MarkStarted until ended is called. Its deadline is that of ctx; without one nothing would bound the step, and
// the context ends with ctx in any case. stop must be called.
func WithGrace(ctx context.Context) (_ context.Context, ended, stop func()) {
	deadline, limited := ctx.Deadline()
	if !limited {
		return ctx, func() {}, func() {}
	}

	timed, free := context.WithDeadline(context.WithoutCancel(ctx), deadline)
	own, end := context.WithCancelCause(timed)

	var underWay atomic.Bool

	unfollow := context.AfterFunc(ctx, func() {
		switch cause := context.Cause(ctx); {
		case errors.Is(cause, context.DeadlineExceeded): // It is timed as well.
		case errors.Is(cause, context.Canceled) && underWay.Load():
		default:
			end(cause)
		}
	})
	begin := func() {
		if ctx.Err() == nil {
			underWay.Store(true)
		}
	}
	ended = func() {
		underWay.Store(false)

		if ctx.Err() != nil {
			end(context.Cause(ctx))
		}
	}

	return context.WithValue(own, graceKey{}, begin), ended, func() {
		unfollow()
		end(nil)
		free()
	}
}

// MarkStarted says that from here on a host does something that is better finished than broken off. It matters where
// ctx comes from WithGrace.
func MarkStarted(ctx context.Context) {
	if begin, ok := ctx.Value(graceKey{}).(func()); ok {
		begin()
	}
}
