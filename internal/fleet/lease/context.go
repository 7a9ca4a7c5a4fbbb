package lease

import (
	"context"
	"slices"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/admission"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// Grace is how long an operation goes on after its time is over or it was cancelled, also if its host is silent: it
// reads, undoes or writes down what it did, and gives its leases back. A host that answers needs less than a second.
const Grace = finishTimeout + releaseTimeout

// finishTimeout is what GraceContext allows of it.
const finishTimeout = 15 * time.Second

// leasesKey is where a context has the leases that it carries.
type leasesKey struct{}

func carried(ctx context.Context) []*Held {
	held, _ := ctx.Value(leasesKey{}).([]*Held)

	return held
}

// With returns a context that carries the lease in addition to those that ctx carries already. It ends when the lease
// is lost. cancel frees what it takes.
func (l *Held) With(ctx context.Context) (_ context.Context, cancel context.CancelFunc) {
	all := append(slices.Clone(carried(ctx)), l)

	return endingWith(libvirt.Guarded(context.WithValue(ctx, leasesKey{}, all), Confirm), l)
}

// endingWith returns a context that ends when one of the leases is lost, with that as its cause.
func endingWith(ctx context.Context, held ...*Held) (context.Context, context.CancelFunc) {
	ctx, end := context.WithCancelCause(ctx)
	unfollow := make([]func() bool, len(held))

	for i, l := range held {
		unfollow[i] = context.AfterFunc(l.lost, func() { end(context.Cause(l.lost)) })
	}

	return ctx, func() {
		for _, stop := range unfollow {
			stop()
		}

		end(context.Canceled)
	}
}

// CleanupContext returns a context for what has to be done after an operation that has ended, for whatever reason: it
// goes on when ctx is cancelled, for no longer than d, and ends when a lease that ctx carries is lost.
func CleanupContext(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	timed, free := context.WithTimeout(context.WithoutCancel(ctx), d)
	after, end := endingWith(timed, carried(ctx)...)

	return after, func() { end(); free() }
}

// GraceContext returns a context for the last part of an operation, however the rest ended: it ends 15 seconds after
// ctx, or when a lease that ctx carries is lost. Several parts that follow the deadline of ctx share these 15 seconds.
func GraceContext(ctx context.Context) (context.Context, context.CancelFunc) {
	own, end := endingWith(context.WithoutCancel(ctx), carried(ctx)...)
	unfollow := context.AfterFunc(ctx, func() {
		_ = admission.Pause(own, finishTimeout)

		end()
	})
	timed, free := own, func() {}

	if deadline, limited := ctx.Deadline(); limited {
		timed, free = context.WithDeadline(own, deadline.Add(finishTimeout))
	}

	return timed, func() { unfollow(); free(); end() }
}

// WithoutCancel returns a context that goes on when ctx is cancelled, and ends when a lease that ctx carries is lost.
// What runs in it must have a limit of its own: CleanupContext gives one.
func WithoutCancel(ctx context.Context) (context.Context, context.CancelFunc) {
	return endingWith(context.WithoutCancel(ctx), carried(ctx)...)
}

// Confirm makes sure that every lease which ctx carries is held right now: each was renewed less than Validity ago, or
// is renewed. Its error is an *Error. It guards all calls that change something in such a context.
func Confirm(ctx context.Context) error {
	for _, l := range carried(ctx) {
		if err := l.confirm(ctx); err != nil {
			return err
		}
	}

	return nil
}

// Lost returns why a lease that ctx carries is lost, nil as long as none is known to be.
func Lost(ctx context.Context) error {
	for _, l := range carried(ctx) {
		if err := context.Cause(l.lost); err != nil { //nolint:contextcheck // lost is a signal, not the context of a call
			return err
		}
	}

	return nil
}
