package turn

import (
	"context"
	"errors"
	"sync/atomic"
)

// lastingKey is where a context that was made by Lasting has what Begun calls.
type lastingKey struct{}

// Lasting returns a context that ends with ctx, except that something which has
// begun in it outlasts that ctx is cancelled: from Begun until over is called.
// Its time is that of ctx; where that has no limit nothing would bound it, and
// it ends with ctx in any case. stop must be called.
func Lasting(ctx context.Context) (_ context.Context, over, stop func()) {
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
	over = func() {
		underWay.Store(false)

		if ctx.Err() != nil {
			end(context.Cause(ctx))
		}
	}

	return context.WithValue(own, lastingKey{}, begin), over, func() {
		unfollow()
		end(nil)
		free()
	}
}

// Begun says that from here on a host does something that is better finished
// than broken off. It matters where ctx comes from Lasting.
func Begun(ctx context.Context) {
	if begin, ok := ctx.Value(lastingKey{}).(func()); ok {
		begin()
	}
}
