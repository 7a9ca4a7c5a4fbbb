package lease

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/admission"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// successorPrefix is the beginning of the usage id of a secret that isn't the root of a lease.
const successorPrefix = UsagePrefix + "after:"

// successor returns the usage id of the secret that marks s as abandoned.
func successor(s libvirt.OwnSecret) string { return successorPrefix + s.UUID }

// chain reads the lease's secrets from its root to the last one, which is the one that counts. It is empty if the lease
// is free.
func chain(ctx context.Context, on Store, name string) ([]libvirt.OwnSecret, error) {
	var all []libvirt.OwnSecret

	for usage := UsagePrefix + name; ; usage = successor(all[len(all)-1]) {
		s, err := on.OwnSecret(ctx, usage)
		if errors.Is(err, libvirt.ErrNotFound) || errors.Is(err, libvirt.ErrUnsupported) {
			return all, nil
		}

		if err != nil {
			return nil, fmt.Errorf("reading who holds the lease: %w", err)
		}

		all = append(all, *s)
	}
}

// watch counts how often another run's lease was read without a change.
type watch struct {
	seen      libvirt.OwnSecret
	unchanged int
	at        time.Time // of the last read
}

// look records a secret that was read, and reports whether it has changed. Reads without an answer don't count: the
// owner may have renewed the lease meanwhile.
func (w *watch) look(s libvirt.OwnSecret) (changed bool) {
	w.at = time.Now()

	if s.UUID == w.seen.UUID && bytes.Equal(s.Value, w.seen.Value) {
		w.unchanged++

		return false
	}

	w.seen, w.unchanged = s, 0

	return true
}

// abandoned reports whether the lease is abandoned.
func (w *watch) abandoned() bool { return w.unchanged >= unchangedPolls }

// acquire waits for the lease until ctx ends.
func (l *Held) acquire(ctx context.Context) error {
	w := l.keeper.continueWatch(l.store, l.name)

	err := l.tryUntilAcquired(ctx, &w)
	if err != nil && ctx.Err() != nil && w.seen.UUID != "" {
		return &Error{
			Host: l.store.Name(), Name: l.name, Kind: ErrHeld, Err: context.Cause(ctx), Holder: Holder(w.seen),
		}
	}

	return err
}

// tryUntilAcquired tries to get the lease until it has it. w records the other holder.
func (l *Held) tryUntilAcquired(ctx context.Context, w *watch) error {
	logged := "" // The secret of the holder that the log names: w may know it from before this wait.

	for {
		took, err := l.define(ctx, UsagePrefix+l.name, nil)
		if took || err != nil {
			return err
		}

		all, err := chain(ctx, l.store, l.name)

		switch {
		case err != nil:
			return err
		case len(all) == 0:
			continue // it was released meanwhile
		}

		last := all[len(all)-1]

		changed := w.look(last)

		if logged != last.UUID { // The time is for a holder that is gone.
			l.keeper.log.WarnContext(ctx, "waiting for another run's lease", "host", l.store.Name(), "lease", l.name,
				"holder", Holder(last), "taken_over_in", time.Duration(unchangedPolls-w.unchanged)*pollInterval+settleTime)

			logged = last.UUID
		}

		switch {
		case changed: // Its owner has renewed it, or it is the first read.
		case w.abandoned():
			*w = watch{seen: w.seen, at: w.at}

			took, err := l.takeOver(ctx, all)
			if took || err != nil {
				return err
			}
		case w.unchanged == silentPolls:
			l.keeper.watchOwner(l.store, l.name, last)
		}

		if err := admission.Pause(ctx, pollInterval); err != nil {
			return err
		}
	}
}

// define tries once to define a secret with that usage id. If another run has one, it returns false without an error.
func (l *Held) define(ctx context.Context, usage string, before []libvirt.OwnSecret) (bool, error) {
	l.secret = libvirt.OwnSecret{
		UUID: uuid.NewString(), UsageType: libvirt.SecretUsageVTPM, UsageID: usage,
		Description: "virtfleet: a VM is being changed", Value: l.record.encode(),
	}
	l.before = before
	began := time.Now()
	err := l.store.DefineOwnSecret(ctx, l.secret)

	switch {
	case err == nil:
		l.mu.Lock()
		l.renewed = began
		l.mu.Unlock()

		return true, nil
	case errors.Is(err, libvirt.ErrUnsupported):
		// Only libvirt's test driver says so, which runs within this process: no other run can reach it.
		l.shared = true

		return true, nil
	case errors.Is(err, libvirt.ErrExists):
		return false, nil
	default:
		// The host may have defined the secret although its answer was lost. A successor isn't dropped: it is unknown when
		// the owner of the previous secret has stopped.
		if errors.Is(err, libvirt.ErrUnreachable) && len(before) == 0 {
			l.dropLater() //nolint:contextcheck // it outlives the order
		}

		return false, fmt.Errorf("taking the lease: %w", err)
	}
}

// takeOver takes over an abandoned lease, unless another run has taken it over first.
func (l *Held) takeOver(ctx context.Context, all []libvirt.OwnSecret) (bool, error) {
	last := all[len(all)-1]

	took, err := l.define(ctx, successor(last), all)
	if !took || err != nil {
		return false, err
	}

	l.keeper.log.WarnContext(ctx, "taking over a lease that was left behind", "host", l.store.Name(), "lease", l.name,
		"holder", Holder(last))

	l.settled = time.Now().Add(settleTime)
	stop := l.renewInBackground() //nolint:contextcheck // it continues until it is stopped, whatever becomes of the order
	waited := admission.Pause(ctx, settleTime)

	stop()

	if waited == nil {
		waited = l.renew(ctx)
	}

	if waited == nil {
		return true, nil
	}

	if errors.Is(waited, ErrLost) {
		l.lost, l.lose = context.WithCancelCause(context.Background())

		return false, l.removeOrphan(ctx)
	}

	l.dropLater() //nolint:contextcheck // it outlives the order

	return false, waited
}

// removeOrphan removes a successor whose root is gone, because the owner has released its lease meanwhile. A successor
// that was itself succeeded stays: it leads to the secret that counts.
func (l *Held) removeOrphan(ctx context.Context) error {
	root, err := l.store.OwnSecret(ctx, UsagePrefix+l.name)
	if err != nil && !errors.Is(err, libvirt.ErrNotFound) {
		return fmt.Errorf("reading who holds the lease: %w", err)
	}

	if err == nil && root.UUID == l.before[0].UUID {
		return nil
	}

	if err := l.store.UndefineOwnSecret(ctx, l.secret); err != nil && !errors.Is(err, libvirt.ErrNotFound) {
		return fmt.Errorf("removing a lease that is not held: %w", err)
	}

	return nil
}

// Current returns the last secret of the lease, nil if the lease is free. It doesn't distinguish an abandoned lease
// from one that is held.
func Current(ctx context.Context, on Store, name string) (*libvirt.OwnSecret, error) {
	all, err := chain(ctx, on, name)
	if err != nil || len(all) == 0 {
		return nil, err
	}

	return &all[len(all)-1], nil
}

// LiveHolder describes the run that holds the lease and renews it; "" if no run does. What it saw of an abandoned lease
// counts for Take.
func (k *Keeper) LiveHolder(ctx context.Context, on Store, name string) (string, error) {
	w := k.continueWatch(on, name)

	for first := true; !w.abandoned(); first = false {
		now, err := Current(ctx, on, name)
		if err != nil || now == nil {
			k.ahead.Delete(keyOf(on, name))

			return "", err
		}

		switch {
		case w.look(*now) && !first:
			k.ahead.Delete(keyOf(on, name))

			return Holder(*now), nil
		case w.unchanged == silentPolls:
			k.watchOwner(on, name, *now)
		}

		k.ahead.Store(keyOf(on, name), w)

		if w.abandoned() {
			break // Of many VMs that a killed run left, each would wait otherwise, though its watch is over.
		}

		if err := admission.Pause(ctx, pollInterval); err != nil {
			return "", err
		}
	}

	return "", nil
}
