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

// successor is the usage id of the secret that says of another one that it was left behind.
func successor(s libvirt.Secret) string { return UsagePrefix + "after:" + s.UUID }

// chain reads the lease from its root to the secret that counts, which is the last. Empty: it is free.
func chain(ctx context.Context, on Store, name string) ([]libvirt.Secret, error) {
	var all []libvirt.Secret

	for usage := UsagePrefix + name; ; usage = successor(all[len(all)-1]) {
		s, err := on.Secret(ctx, usage)
		if errors.Is(err, libvirt.ErrNotFound) || errors.Is(err, libvirt.ErrUnsupported) {
			return all, nil
		}

		if err != nil {
			return nil, fmt.Errorf("reading who holds the lease: %w", err)
		}

		all = append(all, *s)
	}
}

// watch counts how often a lease of another run was seen unchanged.
type watch struct {
	seen      libvirt.Secret
	unchanged int
}

// look notes what was answered, and says whether it is new. Looks that were not answered don't count: what an owner
// does meanwhile can't be seen.
func (w *watch) look(s libvirt.Secret) (changed bool) {
	if s.UUID == w.seen.UUID && bytes.Equal(s.Value, w.seen.Value) {
		w.unchanged++

		return false
	}

	w.seen, w.unchanged = s, 0

	return true
}

// abandoned says that the lease was left behind.
func (w *watch) abandoned() bool { return w.unchanged >= unchangedPolls }

// acquire waits for the lease until ctx ends.
func (l *Held) acquire(ctx context.Context) error {
	var w watch

	err := l.contend(ctx, &w)
	if err != nil && ctx.Err() != nil && w.seen.UUID != "" {
		return &Error{
			Host: l.store.Name(), Name: l.name, Kind: ErrHeld, Err: context.Cause(ctx), Holder: Holder(w.seen),
		}
	}

	return err
}

// contend tries for the lease until it has it. w is what it saw of who has it instead.
func (l *Held) contend(ctx context.Context, w *watch) error {
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
			continue // released meanwhile
		}

		last := all[len(all)-1]

		switch before := w.seen.UUID; {
		case w.look(last):
			if before != last.UUID {
				l.keeper.log.WarnContext(ctx, "waiting for another run's lease", "host", l.store.Name(), "lease", l.name,
					"holder", Holder(last))
			}
		case w.abandoned():
			*w = watch{seen: w.seen}

			took, err := l.succeed(ctx, all)
			if took || err != nil {
				return err
			}
		}

		if err := admission.Pause(ctx, pollInterval); err != nil {
			return err
		}
	}
}

// define tries once for a secret of that usage id. Its error is nil when another run has it.
func (l *Held) define(ctx context.Context, usage string, before []libvirt.Secret) (bool, error) {
	l.secret = libvirt.Secret{
		UUID: uuid.NewString(), UsageType: libvirt.SecretUsageVTPM, UsageID: usage,
		Description: "virtfleet: a VM is being changed", Value: l.record.encode(),
	}
	l.before = before
	began := time.Now()
	err := l.store.DefineSecret(ctx, l.secret)

	switch {
	case err == nil:
		l.mu.Lock()
		l.renewed = began
		l.mu.Unlock()

		return true, nil
	case errors.Is(err, libvirt.ErrUnsupported):
		// A driver without secrets (libvirt's test driver) has no daemon that another run could reach.
		l.shared = true

		return true, nil
	case errors.Is(err, libvirt.ErrExists):
		return false, nil
	default:
		// The host may have heard it, and only its answer was lost. A successor stays: when the owner of what it succeeds
		// has stopped can't be told.
		if errors.Is(err, libvirt.ErrUnreachable) && len(before) == 0 {
			l.dropLater() //nolint:contextcheck // it outlives the order
		}

		return false, fmt.Errorf("taking the lease: %w", err)
	}
}

// succeed takes over a lease that was left behind, unless another run did it first.
func (l *Held) succeed(ctx context.Context, all []libvirt.Secret) (bool, error) {
	last := all[len(all)-1]

	took, err := l.define(ctx, successor(last), all)
	if !took || err != nil {
		return false, err
	}

	l.keeper.log.WarnContext(ctx, "taking over a lease that was left behind", "host", l.store.Name(), "lease", l.name,
		"holder", Holder(last))

	l.settled = time.Now().Add(settleTime)
	stop := l.renewInBackground() //nolint:contextcheck // it goes on until it is stopped, whatever becomes of the order
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

// removeOrphan removes a successor whose root is gone, as the owner has given its lease back meanwhile. One that was
// succeeded itself stays: it leads to the lease that counts.
func (l *Held) removeOrphan(ctx context.Context) error {
	root, err := l.store.Secret(ctx, UsagePrefix+l.name)
	if err != nil && !errors.Is(err, libvirt.ErrNotFound) {
		return fmt.Errorf("reading who holds the lease: %w", err)
	}

	if err == nil && root.UUID == l.before[0].UUID {
		return nil
	}

	if err := l.store.UndefineSecret(ctx, l.secret); err != nil && !errors.Is(err, libvirt.ErrNotFound) {
		return fmt.Errorf("removing a lease that is not held: %w", err)
	}

	return nil
}

// Current returns who has the lease, nil if it is free. One that was left behind isn't told from one that is held.
func Current(ctx context.Context, on Store, name string) (*libvirt.Secret, error) {
	all, err := chain(ctx, on, name)
	if err != nil || len(all) == 0 {
		return nil, err
	}

	return &all[len(all)-1], nil
}

// LiveHolder says who has the lease and is alive, which is seen when it is renewed; "": no run.
func LiveHolder(ctx context.Context, on Store, name string) (string, error) {
	var w watch

	for first := true; !w.abandoned(); first = false {
		now, err := Current(ctx, on, name)
		if err != nil || now == nil {
			return "", err
		}

		if w.look(*now) && !first {
			return Holder(*now), nil
		}

		if err := admission.Pause(ctx, pollInterval); err != nil {
			return "", err
		}
	}

	return "", nil
}
