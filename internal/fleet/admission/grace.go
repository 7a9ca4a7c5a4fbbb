package admission

import (
	"context"
	"errors"
	"sync/atomic"
)

// graceKey is the context key of the function that MarkStarted calls in a context from WithGrace.
type graceKey struct{}

// WithGrace returns a context that ends with ctx. But from MarkStarted until ended is called, a cancel of ctx doesn't
// end it, so that a started step can finish. Its deadline is that of ctx. If ctx has no deadline, nothing would limit
// the step, and the context ends with ctx in any case. The caller must call stop.
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
		case errors.Is(cause, context.DeadlineExceeded): // the deadline also ends timed
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

// MarkStarted marks the start of a step on a host that is better finished than interrupted. It has an effect only if
// ctx comes from WithGrace.
func MarkStarted(ctx context.Context) {
	if begin, ok := ctx.Value(graceKey{}).(func()); ok {
		begin()
	}
}
