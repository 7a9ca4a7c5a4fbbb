package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// A lock is a libvirt secret on the host: defining one whose usage id is taken
// is refused, which makes it the one thing that two runs on two machines can't
// both get. Its holder rewrites its value every lockBeat; who waits and sees no
// new value for lockStale takes it to be left behind by a run that was killed.
// No clocks are compared.
const (
	lockPrefix = "virtfleet:lock:"
	lockBeat   = 4 * time.Second
	// lockStale is five beats: a host that is slow for a moment loses no lock.
	lockStale = 5 * lockBeat
	lockPoll  = time.Second
)

// lockRecord is the secret's value, for people and for those who wait.
type lockRecord struct {
	Owner   string    `json:"owner"`
	Purpose string    `json:"purpose"`
	Since   time.Time `json:"since"`
	Beat    int       `json:"beat"`
}

type lock struct {
	host   *host
	secret libvirt.Secret
	log    *slog.Logger
}

// lockOn takes the lock called name on the host, waiting for others until ctx
// ends. Those are told "<owner> is <purpose> it". The returned context ends with
// ctx, and when the lock is lost; release must be called.
func (f *Fleet) lockOn(ctx context.Context, h *host, name, purpose string) (context.Context, func(), error) {
	unlockLocal, err := f.mutexes.Lock(ctx, h.name+"/"+name)
	if err != nil {
		return nil, nil, err
	}

	l := &lock{host: h, log: f.log}
	record := lockRecord{Owner: f.owner, Purpose: purpose, Since: time.Now().UTC()}

	if err := l.acquire(ctx, lockPrefix+name, record); err != nil {
		if errors.Is(err, ErrUnreachable) {
			f.dropLater(l) // The host may have heard it, and only its answer was lost.
		}

		unlockLocal()

		return nil, nil, err
	}

	held, lost := context.WithCancelCause(ctx)
	// The lock outlives a caller's patience: what is half done when ctx ends
	// still has to be cleaned up under it.
	beating, stop := context.WithCancel(f.lifetime)
	stopped := make(chan struct{})

	go func() {
		defer close(stopped)
		l.beat(beating, lost, record)
	}()

	var once sync.Once

	return held, func() {
		once.Do(func() {
			stop()
			<-stopped
			lost(context.Canceled)

			dropping, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
			defer cancel()

			if !l.drop(dropping) {
				f.dropLater(l) //nolint:contextcheck // it outlives this call, and ends with the fleet
			}

			unlockLocal()
		})
	}, nil
}

func (l *lock) acquire(ctx context.Context, usageID string, record lockRecord) error {
	value, err := json.Marshal(record)
	if err != nil {
		return fmt.Errorf("encoding lock: %w", err)
	}

	l.secret = libvirt.Secret{
		UUID: uuid.NewString(), UsageType: libvirt.SecretUsageVTPM, UsageID: usageID,
		Description: "virtfleet: a machine is being changed", Value: value,
	}

	var seen libvirt.Secret // the other holder's

	err = l.contend(ctx, &seen)
	if err != nil && ctx.Err() != nil && seen.UUID != "" {
		return l.heldBy(seen, context.Cause(ctx))
	}

	return err
}

// contend tries for the lock until it has it. seen is what it saw last of who
// has it instead.
func (l *lock) contend(ctx context.Context, seen *libvirt.Secret) error {
	var since time.Time // when seen was new

	for {
		err := l.host.conn.DefineSecret(ctx, l.secret)
		if err == nil || errors.Is(err, ErrUnsupported) {
			// A driver without secrets (libvirt's test driver) has no daemon
			// that another run could reach: there is nobody to lock out.
			return nil
		}

		if !errors.Is(err, libvirt.ErrExists) {
			return fmt.Errorf("locking: %w", err)
		}

		other, err := l.host.conn.Secret(ctx, l.secret.UsageID)

		switch {
		case isNotFound(err):
			continue // released meanwhile
		case err != nil:
			return fmt.Errorf("reading who holds the lock: %w", err)
		case other.UUID != seen.UUID || !bytes.Equal(other.Value, seen.Value):
			if other.UUID != seen.UUID {
				l.log.WarnContext(ctx, "waiting for another run's lock", "host", l.host.name, "lock", l.secret.UsageID,
					"holder", holder(*other))
			}

			*seen, since = *other, time.Now()
		case time.Since(since) > lockStale:
			// By its own UUID, so that a lock somebody else just took over is not hit.
			if err := l.host.conn.UndefineSecret(ctx, *other); err != nil && !isNotFound(err) {
				return fmt.Errorf("removing a lock left behind: %w", err)
			}

			continue
		}

		if err := pause(ctx, lockPoll); err != nil {
			return err
		}
	}
}

func (l *lock) heldBy(s libvirt.Secret, cause error) error {
	return &Error{
		Host: l.host.name, Kind: ErrLocked, Err: cause, Detail: holder(s),
		Remedy: "Wait for that run to end. A lock whose run was killed is taken over after " + lockStale.String() + ".",
	}
}

// holder says who holds a lock, as far as the lock says it.
func holder(s libvirt.Secret) string {
	var r lockRecord
	if err := json.Unmarshal(s.Value, &r); err != nil {
		return "another run is changing it"
	}

	return fmt.Sprintf("%s is %s it since %s", r.Owner, r.Purpose, r.Since.Format(time.RFC3339))
}

// liveHolder says who holds the lock called name on the host and is alive: it
// is renewed. "" is nobody.
func (f *Fleet) liveHolder(ctx context.Context, h *host, name string) (string, error) {
	var seen *libvirt.Secret

	for began := time.Now(); seen == nil || time.Since(began) <= lockStale; {
		now, err := h.conn.Secret(ctx, lockPrefix+name)

		switch {
		case isNotFound(err), errors.Is(err, ErrUnsupported):
			return "", nil
		case err != nil:
			return "", fmt.Errorf("reading who holds the lock: %w", err)
		case seen == nil:
			seen = now
		case now.UUID != seen.UUID || !bytes.Equal(now.Value, seen.Value):
			return holder(*now), nil
		}

		if err := pause(ctx, lockPoll); err != nil {
			return "", err
		}
	}

	return "", nil
}

// beat keeps the lock alive until ctx ends, and ends ctx when the lock is lost.
func (l *lock) beat(ctx context.Context, lost context.CancelCauseFunc, record lockRecord) {
	for {
		if pause(ctx, lockBeat) != nil {
			return
		}

		record.Beat++

		value, err := json.Marshal(record)
		if err != nil {
			lost(fmt.Errorf("encoding lock: %w", err))

			return
		}

		renewed := l.secret
		renewed.Value = value

		err = l.host.conn.SetSecretValue(ctx, renewed)
		if errors.Is(err, ErrUnsupported) {
			return
		}

		if isNotFound(err) {
			lost(&Error{Host: l.host.name, Kind: ErrLocked, Detail: "the lock was taken over by another run"})

			return
		}

		if err != nil && ctx.Err() == nil {
			l.log.WarnContext(ctx, "lock not renewed", "host", l.host.name, "error", err.Error())
		}
	}
}

// drop gives the lock back. It reports false where the host can't be reached
// for it.
func (l *lock) drop(ctx context.Context) bool {
	err := l.host.conn.UndefineSecret(ctx, l.secret)
	if err == nil || isNotFound(err) || errors.Is(err, ErrUnsupported) {
		return true
	}

	l.log.WarnContext(ctx, "lock not released", "host", l.host.name, "error", err.Error())

	return !errors.Is(err, ErrUnreachable) && !errors.Is(err, context.DeadlineExceeded)
}

// dropLater gives a lock back as soon as its host can be reached again. Until
// then, or when this run ends before, whoever wants it next takes it over.
func (f *Fleet) dropLater(l *lock) {
	if f.lifetime.Err() != nil {
		return
	}

	f.background.Go(func() {
		ctx, cancel := context.WithTimeout(f.lifetime, finishTimeout)
		defer cancel()

		for !l.drop(ctx) {
			if pause(ctx, lockBeat) != nil {
				return
			}
		}
	})
}

// unfinished are the locks of machines that are being created, by UUID.
type unfinished struct {
	mu    sync.Mutex
	locks map[string]func()
}

func (u *unfinished) keep(id string, unlock func()) {
	u.mu.Lock()
	defer u.mu.Unlock()

	if u.locks == nil {
		u.locks = make(map[string]func())
	}

	u.locks[id] = unlock
}

func (u *unfinished) release(id string) {
	u.mu.Lock()
	unlock := u.locks[id]
	delete(u.locks, id)
	u.mu.Unlock()

	if unlock != nil {
		unlock()
	}
}

// releaseAll gives back the locks of creations that nobody finished.
func (u *unfinished) releaseAll() {
	u.mu.Lock()
	ids := slices.Collect(maps.Keys(u.locks))
	u.mu.Unlock()

	for _, id := range ids {
		u.release(id)
	}
}

// cleanupTimeout bounds what is done after the caller gave up: a cancelled
// apply has to end within seconds.
const cleanupTimeout = 5 * time.Second

// pause waits, and returns the reason when ctx ends first.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()

	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
