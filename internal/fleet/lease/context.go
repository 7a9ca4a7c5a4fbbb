package lease

import (
	"context"
	"slices"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/admission"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// Grace is how long an operation may continue after its deadline or a cancel, even if its host doesn't answer: it
// reads, undoes or records what it did, and releases its leases. On a host that answers, this takes less than a second.
const Grace = finishTimeout + releaseTimeout

// finishTimeout is the part of Grace that GraceContext allows.
const finishTimeout = 15 * time.Second

// leasesKey is the context key of the leases that a context carries.
type leasesKey struct{}

func carried(ctx context.Context) []*Held {
	held, _ := ctx.Value(leasesKey{}).([]*Held)

	return held
}

// With returns a context that carries the lease in addition to those that ctx carries already. It ends when the lease
// is lost. cancel releases its resources.
func (l *Held) With(ctx context.Context) (_ context.Context, cancel context.CancelFunc) {
	all := append(slices.Clone(carried(ctx)), l)

	return endingWith(libvirt.Guarded(context.WithValue(ctx, leasesKey{}, all), Confirm), l)
}

// UntilLost returns a context that ends when the lease is lost, and doesn't carry it: while the lease can't be
// confirmed, changes are made nevertheless. It is for changes on other hosts, which must not end with the host that has
// the lease. cancel releases its resources.
func (l *Held) UntilLost(ctx context.Context) (_ context.Context, cancel context.CancelFunc) {
	return endingWith(ctx, l)
}

// endingWith returns a context that ends when one of the leases is lost. The loss is then its cause.
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

// CleanupContext returns a context for the cleanup after an operation, however the operation ended. It isn't cancelled
// with ctx; it ends after d, or when a lease that ctx carries is lost.
func CleanupContext(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	timed, free := context.WithTimeout(context.WithoutCancel(ctx), d)
	after, end := endingWith(timed, carried(ctx)...)

	return after, func() { end(); free() }
}

// GraceContext returns a context for the last part of an operation, however the rest ended. It ends 15 seconds after
// ctx, or when a lease that ctx carries is lost. Several parts that depend on the deadline of ctx share these 15
// seconds.
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

// WithoutCancel returns a context that isn't cancelled with ctx, and ends when a lease that ctx carries is lost. An
// operation that uses it must have a limit of its own; CleanupContext sets one.
func WithoutCancel(ctx context.Context) (context.Context, context.CancelFunc) {
	return endingWith(context.WithoutCancel(ctx), carried(ctx)...)
}

// Confirm returns an error unless every lease that ctx carries is held right now: each was renewed less than Validity
// ago, or is renewed by Confirm. The error is an *Error. All calls that change something in such a context are guarded
// by Confirm.
func Confirm(ctx context.Context) error {
	for _, l := range carried(ctx) {
		if err := l.confirm(ctx); err != nil {
			return err
		}
	}

	return nil
}

// Lost returns why a lease that ctx carries is lost, or nil if no lease is known to be lost.
func Lost(ctx context.Context) error {
	for _, l := range carried(ctx) {
		if err := context.Cause(l.lost); err != nil { //nolint:contextcheck // lost is a signal, not the context of a call
			return err
		}
	}

	return nil
}
