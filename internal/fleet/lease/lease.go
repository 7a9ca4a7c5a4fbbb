package lease

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/admission"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

const (
	// renewInterval is how often a lease is renewed.
	renewInterval = 3 * time.Second
	// Validity is how long a lease may be used after the last renewal: three renewals may fail.
	Validity = 10 * time.Second
	// pollInterval is how often another run's lease is read. After unchangedPolls answered reads without a change, the
	// lease counts as abandoned.
	pollInterval   = time.Second
	unchangedPolls = 12
	// settleTime is how long a run that took a lease over waits before it uses it. It exceeds Validity by the time of a
	// call that the previous owner made at the last moment.
	settleTime = Validity + 5*time.Second
	// TakeoverTime is how long it takes to take over an abandoned lease, on a host that answers at once.
	TakeoverTime = unchangedPolls*pollInterval + settleTime
	// releaseTimeout limits the release of a lease: a cancelled apply has to end within seconds.
	releaseTimeout = 5 * time.Second
	// ownPollInterval is how often TakeUnlessOwn asks whether this run has got the lease.
	ownPollInterval = 50 * time.Millisecond
	// lateRelease limits the release of a lease in the background if its host did not answer.
	lateRelease = time.Minute
)

// Store keeps leases: the secrets of one host. *libvirt.Host implements it. If several callers define a secret with the
// same usage id, all but one get libvirt.ErrExists.
type Store interface {
	Name() string
	DefineOwnSecret(ctx context.Context, s libvirt.OwnSecret) error
	OwnSecret(ctx context.Context, usageID string) (*libvirt.OwnSecret, error)
	SetOwnSecretValue(ctx context.Context, s libvirt.OwnSecret) error
	UndefineOwnSecret(ctx context.Context, s libvirt.OwnSecret) error
	OwnSecretIDs(ctx context.Context, prefix string) ([]string, error)
}

// Keeper takes leases for one run. Its methods may be called from several goroutines.
type Keeper struct {
	owner      string
	log        *slog.Logger
	mutexes    admission.Mutexes
	background sync.WaitGroup
	lifetime   context.Context //nolint:containedctx // bounds renewals in the background, not a call
	// elsewhere returns hosts that were reached and may have further leases of a killed run; nil if there are none.
	elsewhere func() []Store
	shared    sharing
	// own are the leases that this run holds, by host and name.
	own sync.Map
	// ahead has what this run saw of other runs' leases before an operation wanted them: a watch, by host and name.
	ahead sync.Map
	// ownersAhead has the owners whose leases are being watched ahead, by host and owner.
	ownersAhead sync.Map
}

// NewKeeper returns a keeper for the run named owner. It renews its leases until lifetime ends. elsewhere returns hosts
// that were reached and may have further leases of a killed run; it may be nil.
func NewKeeper(lifetime context.Context, owner string, log *slog.Logger, elsewhere func() []Store) *Keeper {
	return &Keeper{owner: owner, log: log, lifetime: lifetime, elsewhere: elsewhere}
}

// Wait waits until all background work has ended. lifetime must have ended before.
func (k *Keeper) Wait() { k.background.Wait() }

// Held is a lease that this run holds.
type Held struct {
	keeper *Keeper
	store  Store
	name   string
	secret libvirt.OwnSecret
	// before are the secrets of abandoned leases that this one succeeds, the root first.
	before []libvirt.OwnSecret
	// settled is when the previous owner has certainly stopped; zero if there is no previous owner.
	settled time.Time

	// lost ends when another run has the lease; its cause is the reason.
	lost     context.Context //nolint:containedctx // a signal that many wait for, not a call's
	lose     context.CancelCauseFunc
	released atomic.Bool
	// stop ends the renewals and releases the lease.
	stop func()
	// shared says that the host can't store leases; then no other run can connect to its libvirt either.
	shared bool
	// turn holds a token for the goroutine that renews the lease.
	turn chan struct{}

	mu sync.Mutex
	// renewed is when the last successful renewal began.
	renewed time.Time
	record  record
}

// Take takes the lease called name on the host for the purpose ("updating"). It waits for other runs until ctx ends:
// then the error is of kind ErrHeld and names the holder. Changes under the lease use the returned context, which
// carries the lease. The lease is renewed until Release, even after ctx has ended.
func (k *Keeper) Take(ctx context.Context, on Store, name, purpose string) (context.Context, *Held, error) {
	unlock, err := k.mutexes.Lock(ctx, keyOf(on, name))
	if err != nil {
		return nil, nil, err
	}

	return k.take(ctx, on, name, purpose, unlock)
}

// TakeUnlessOwn is Take for a caller that must not wait for other operations of this run: if this run holds the lease
// already, TakeUnlessOwn returns no lease and no error. ctx bounds the wait; the lease is used with contexts of With.
func (k *Keeper) TakeUnlessOwn(ctx context.Context, on Store, name, purpose string) (*Held, error) {
	for {
		unlock, _ := k.mutexes.TryLock(keyOf(on, name))
		if unlock != nil {
			_, l, err := k.take(ctx, on, name, purpose, unlock)

			return l, err
		}

		if _, own := k.own.Load(keyOf(on, name)); own {
			return nil, nil //nolint:nilnil // the caller needs no lease
		}

		// An operation of this run may be waiting for another run's lease.
		if err := admission.Pause(ctx, ownPollInterval); err != nil {
			return nil, err
		}
	}
}

// keyOf distinguishes the leases of a run.
func keyOf(on Store, name string) string { return on.Name() + "/" + name }

// take is Take for a caller that has the mutex of the lease, which unlock releases.
func (k *Keeper) take(
	ctx context.Context, on Store, name, purpose string, unlock func(),
) (context.Context, *Held, error) {
	l := &Held{
		keeper: k, store: on, name: name, turn: make(chan struct{}, 1),
		record: record{Owner: k.owner, Purpose: purpose, Since: time.Now().UTC()},
	}
	l.lost, l.lose = context.WithCancelCause(context.Background())

	if err := l.acquire(libvirt.Guarded(ctx, nil)); err != nil {
		unlock()

		return nil, nil, err
	}

	k.own.Store(keyOf(on, name), struct{}{})

	held, end := l.With(ctx)
	stop := l.renewInBackground()
	l.stop = func() {
		k.own.Delete(keyOf(on, name))
		stop()
		l.giveBack()
		end()
		unlock()
	}

	return held, l, nil
}

// Release releases the lease, which ends the context that Take has returned. It may be called more than once.
func (l *Held) Release() {
	if l.released.Swap(true) {
		return
	}

	l.stop()
}

// confirm returns an error unless the lease is held right now and wasn't released.
func (l *Held) confirm(ctx context.Context) error {
	if l.released.Load() {
		return l.failed(ErrReleased, nil)
	}

	return l.valid(ctx)
}

// valid returns an error unless the lease is this run's right now.
func (l *Held) valid(ctx context.Context) error {
	for {
		if err := context.Cause(l.lost); err != nil { //nolint:contextcheck // lost is a signal, not the context of a call
			return err
		}

		if l.shared || l.age() < Validity {
			return nil
		}

		// The run was suspended, or the host did not answer. While the lease exists, no other run has taken it over.
		err := l.renew(ctx)
		if lost := context.Cause(l.lost); lost != nil { //nolint:contextcheck // lost is a signal, not the context of a call
			return lost // another renewal may have found the loss, which has ended ctx
		}

		if err != nil {
			return err
		}
	}
}

// age returns how long ago the last renewal began. After the computer was suspended, only one of the two clocks shows
// the time.
func (l *Held) age() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()

	now := time.Now()

	return max(now.Sub(l.renewed), now.Round(0).Sub(l.renewed.Round(0)))
}

// renew renews the lease once, for no longer than Validity.
func (l *Held) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(libvirt.Guarded(ctx, nil), Validity)
	defer cancel()

	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return l.failed(ErrUnconfirmed, context.Cause(ctx))
	}

	l.mu.Lock()
	l.record.Beat++
	now := l.secret
	now.Value = l.record.encode()
	l.mu.Unlock()

	began := time.Now()

	// The order matters: a run that took the lease over and has released it since removed the root before the successor.
	err := l.intact(ctx)
	if err == nil {
		err = l.store.SetOwnSecretValue(ctx, now)
	}

	var failure *Error

	switch {
	case err == nil:
		l.mu.Lock()
		l.renewed = began
		l.mu.Unlock()

		return nil
	case errors.As(err, &failure):
		l.lose(failure)
	case errors.Is(err, libvirt.ErrNotFound):
		l.lose(l.failed(ErrLost, nil))
	default:
		return l.failed(ErrUnconfirmed, err)
	}

	return context.Cause(l.lost) //nolint:contextcheck // lost is a signal, not the context of a call
}

// intact returns an error if another run has succeeded this lease, or if its root is gone. An *Error means that the
// lease is lost.
func (l *Held) intact(ctx context.Context) error {
	next, err := l.store.OwnSecret(ctx, successor(l.secret))
	if err == nil {
		return &Error{Host: l.store.Name(), Name: l.name, Kind: ErrLost, Holder: Holder(*next)}
	}

	if !errors.Is(err, libvirt.ErrNotFound) {
		return err
	}

	if len(l.before) == 0 {
		return nil
	}

	root, err := l.store.OwnSecret(ctx, UsagePrefix+l.name)
	if err != nil {
		return err
	}

	if root.UUID != l.before[0].UUID {
		return &Error{Host: l.store.Name(), Name: l.name, Kind: ErrLost, Holder: Holder(*root)}
	}

	return nil
}

func (l *Held) failed(kind, err error) error {
	return &Error{Host: l.store.Name(), Name: l.name, Kind: kind, Err: err}
}

// renewInBackground renews the lease until it is lost or stop is called, even if the operation is cancelled: what is
// half done then still has to be cleaned up.
func (l *Held) renewInBackground() (stop func()) {
	renewing, cancel := context.WithCancel(l.keeper.lifetime)
	stopped := make(chan struct{})

	go func() {
		defer close(stopped)
		l.renewPeriodically(renewing)
	}()

	return func() {
		cancel()
		<-stopped
	}
}

func (l *Held) renewPeriodically(ctx context.Context) {
	for !l.shared && admission.Pause(ctx, renewInterval) == nil {
		err := l.renew(ctx)
		if errors.Is(err, ErrLost) {
			return
		}

		if err != nil && ctx.Err() == nil {
			l.keeper.log.WarnContext(ctx, "lease not renewed", "host", l.store.Name(), "lease", l.name, "error", err.Error())
		}
	}
}

func (l *Held) giveBack() {
	ctx, cancel := context.WithTimeout(context.Background(), releaseTimeout)
	defer cancel()

	if !l.drop(ctx) {
		l.dropLater()
	}
}

// drop removes the lease if it is this run's. It returns false if the host can't be reached.
func (l *Held) drop(ctx context.Context) bool {
	err := l.remove(ctx)
	if err == nil || errors.Is(err, ErrLost) {
		return true
	}

	l.keeper.log.WarnContext(ctx, "lease not released", "host", l.store.Name(), "lease", l.name, "error", err.Error())

	return !errors.Is(err, libvirt.ErrUnreachable) && !errors.Is(err, context.DeadlineExceeded)
}

// remove removes the root, which frees the lease, and then its successors.
func (l *Held) remove(ctx context.Context) error {
	for _, s := range slices.Concat(l.before, []libvirt.OwnSecret{l.secret}) {
		if err := l.valid(ctx); l.shared || err != nil {
			return err
		}

		if err := l.store.UndefineOwnSecret(ctx, s); err != nil && !errors.Is(err, libvirt.ErrNotFound) {
			return err
		}
	}

	return nil
}

// dropLater releases the lease as soon as its host can be reached again. Until then, or if this run ends before, the
// next run that wants the lease takes it over.
func (l *Held) dropLater() {
	if l.keeper.lifetime.Err() != nil {
		return
	}

	l.keeper.background.Go(func() {
		ctx, cancel := context.WithTimeout(l.keeper.lifetime, lateRelease)
		defer cancel()

		if admission.Pause(ctx, time.Until(l.settled)) != nil {
			return
		}

		for !l.drop(ctx) {
			if admission.Pause(ctx, renewInterval) != nil {
				return
			}
		}
	})
}
