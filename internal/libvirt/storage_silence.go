package libvirt

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// ErrStorageSilent says that a storage pool of a host doesn't answer, while the host does. It is ErrUnreachable as
// well, and its cause is a *SilentStorage.
var ErrStorageSilent = errors.New("storage doesn't answer")

const (
	// storagePatience is how long a read has to wait for its storage to count as silent, or half of its limit.
	storagePatience = 10 * time.Second
	// silenceMemory is for how long storage counts as silent if it isn't seen when it answers again.
	silenceMemory = time.Minute
	// answerMemory is for how long storage that has answered is asked by several calls at a time.
	answerMemory = 10 * time.Second
)

// SilentStorage says which storage doesn't answer, as when the server of an NFS pool is down.
type SilentStorage struct {
	Host string
	// Pool is "" if libvirt was asked for something that it finds in one of its pools, and it isn't known which of them is
	// silent.
	Pool string
	// Elsewhere says that the call wasn't about this pool: libvirt goes through its pools, and waits for the silent one.
	Elsewhere bool
	Waited    time.Duration
}

func (e *SilentStorage) Error() string {
	which := "a storage pool"
	if e.Pool != "" {
		which = fmt.Sprintf("storage pool %q", e.Pool)
	}
	text := fmt.Sprintf("%s on host %q doesn't answer, the host itself does: no answer for %v (its server may hang)",
		which, e.Host, e.Waited.Round(time.Millisecond))
	if e.Elsewhere {
		text += "; libvirt there goes through all pools to find this, and would wait for that one"
	}
	return text
}

func (e *SilentStorage) Unwrap() error { return ErrStorageSilent }

// SilentStorageRemedy is what to do about storage that doesn't answer.
const SilentStorageRemedy = "The host is up, and its VMs run on. Bring back the server of the storage pool, or what " +
	"the pool is on. If that can't be brought back, run \"umount -f\" for the pool's directory on the host, which ends " +
	"the calls that wait for it, and then \"virsh pool-destroy\" for the pool."

// storage is what a call about storage asks.
type storage struct {
	pool string // "" if libvirt goes through all pools for it
	// files says that the call is about what is in the pool, which is more than the daemon knows.
	files bool
	// reads says that the call only reads, although it isn't repeated when its connection breaks.
	reads bool
}

// storageCall is a call about storage.
type storageCall struct {
	storage
	// hostSilent says that the call has found out that the host doesn't answer: it says nothing about the storage.
	hostSilent bool
}

// asker is the only call that asks a pool.
type asker struct {
	ended chan struct{} // closed when the call has ended
	// silent is the call's error if the host doesn't answer, else nil. It is set before ended is closed.
	silent *Error
}

// silences are the storages of a host that don't answer. A call that libvirt doesn't return from occupies one of the
// daemon's few workers, also after its connection is cut, so that storage that doesn't answer isn't asked again.
type silences struct {
	mu       sync.Mutex
	silent   map[*silentCall]struct{}
	asking   map[string]*asker // by the pool
	answered map[storage]time.Time
}

// silentCall is a call that got no answer.
type silentCall struct {
	of    SilentStorage
	until time.Time // zero if it is seen when the call returns
}

// callStorage is call for a question or an order about storage. It returns ErrStorageSilent at once while a call about
// that storage hangs. Until storage has answered, it is asked by one reading call at a time. If the host doesn't answer
// that one, those that wait for it return its error: otherwise each would wait for the host, one after the other.
func callStorage[T any](
	ctx context.Context, h *Host, s callSpec, of storage, f func(*conn) (T, error),
) (value T, err error) {
	if h.target.inProcess {
		return call(ctx, h, s, f)
	}
	of.reads = of.reads || s.repeat
	s.storage = &storageCall{storage: of}
	if limit := h.cfg.storageLimit; limit > 0 && of.reads {
		s.timeout = limit
	}
	leave, err := h.silences.enter(ctx, h, s)
	if err != nil {
		return value, h.wrap(s, err, false)
	}
	value, err = call(ctx, h, s, f)
	leave(err)
	return value, err
}

// codeOfCall returns libvirt's error number of a call's error, 0 if there is none.
func codeOfCall(err error) int {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return 0
}

// enter waits until a call may ask its storage. leave gets the call's error. The error of enter is that of another call
// if that has found out that the host doesn't answer.
func (s *silences) enter(ctx context.Context, h *Host, call callSpec) (leave func(error), err error) {
	of, began := call.storage.storage, time.Now()
	for {
		s.mu.Lock()
		if err := s.find(of); err != nil {
			s.mu.Unlock()
			return nil, err
		}
		if !of.reads || time.Since(s.answered[of]) < answerMemory {
			s.mu.Unlock()
			return func(error) {}, nil
		}
		asking := s.asking[of.pool]
		if asking == nil {
			break
		}
		s.mu.Unlock()
		select {
		case <-asking.ended:
			if e := asking.silent; e != nil {
				return nil, &Error{Host: e.Host, Operation: call.operation, Kind: ErrUnreachable, Err: e.Err}
			}
		case <-ctx.Done():
			if call.waitedLong(ctx, began) && h.Answers(context.WithoutCancel(ctx)) {
				return nil, &SilentStorage{
					Host: h.cfg.Name, Pool: of.pool, Elsewhere: of.pool == "", Waited: time.Since(began),
				}
			}
			return nil, contextCause(ctx)
		case <-h.ctx.Done():
			return nil, ErrClosed
		}
	}
	defer s.mu.Unlock()
	if s.asking == nil {
		s.asking, s.answered = map[string]*asker{}, map[storage]time.Time{}
	}
	asking := &asker{ended: make(chan struct{})}
	s.asking[of.pool] = asking
	return func(err error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.asking, of.pool)
		switch {
		case call.storage.hostSilent:
			asking.silent, _ = errors.AsType[*Error](err)
		case err == nil || codeOfCall(err) != 0:
			s.answered[of] = time.Now()
			of.files = false // Who reads a file has read what the daemon knows of the pool.
			s.answered[of] = time.Now()
		}
		close(asking.ended)
	}, nil
}

// waitedLong reports whether a call has reached its deadline, and waited so long that its storage is silent if the host
// isn't.
func (s callSpec) waitedLong(ctx context.Context, began time.Time) bool {
	return errors.Is(ctx.Err(), context.DeadlineExceeded) && time.Since(began) >= min(s.timeout/2, storagePatience)
}

// verifyStorage returns ErrStorageSilent while a call about the storage hangs.
func (h *Host) verifyStorage(s callSpec, of storage) error {
	h.silences.mu.Lock()
	defer h.silences.mu.Unlock()
	return h.wrap(s, h.silences.find(of), false)
}

// find returns why a call about the storage would get no answer, nil if that isn't known. The caller holds the lock.
func (s *silences) find(of storage) error {
	var found *SilentStorage
	for c := range s.silent {
		switch {
		case !c.until.IsZero() && time.Now().After(c.until):
			delete(s.silent, c)
		case of.pool == c.of.Pool, of.pool == "" && (found == nil || found.Pool == ""): // The name helps most.
			is := c.of
			is.Elsewhere = of.pool == ""
			found = &is
		}
	}
	if found == nil {
		return nil
	}
	return found
}

// note remembers a call that got no answer, and returns the error of the call. forget is called when it has returned.
func (s *silences) note(host string, of storage, waited time.Duration, until time.Time) (forget func(), err error) {
	c := &silentCall{until: until, of: SilentStorage{Host: host, Pool: of.pool, Waited: waited}}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.silent == nil {
		s.silent = map[*silentCall]struct{}{}
	}
	s.silent[c] = struct{}{}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.silent, c)
	}, s.find(of)
}

// runInStorage is runOn for a call about storage. If a read gets no answer in time, and the host answers another
// question, the connection is left open: the storage answers again when libvirt returns from the call.
func runInStorage[T any](
	ctx context.Context, h *Host, c *conn, s callSpec, f func(*conn) (T, error),
) (value T, lost bool, err error) {
	if !s.storage.reads {
		return runOn(ctx, c, f)
	}
	began := time.Now()
	returned := make(chan struct{})
	left := false
	value, lost, err = runOrLeave(ctx, c, func(c *conn) (T, error) {
		defer close(returned)
		return f(c)
	}, func(c *conn) {
		if left = s.waitedLong(ctx, began); !left {
			c.giveUp()
			return
		}
		c.retire()
	})
	if !left {
		return value, lost, err
	}
	if !h.Answers(context.WithoutCancel(ctx)) {
		s.storage.hostSilent = true
		c.giveUp()
		return value, lost, err
	}
	select {
	case <-returned: // Just now.
		c.giveUp()
		return value, lost, err
	default:
	}
	var until time.Time
	watched := c.holdsFewTokens()
	if !watched {
		c.giveUp()
		until = time.Now().Add(silenceMemory)
	}
	forget, err := h.silences.note(h.cfg.Name, s.storage.storage, time.Since(began), until)
	if watched {
		stop := h.onClose(c.giveUp)
		h.background.Go(func() {
			<-returned
			if stop() {
				c.giveUp()
			}
			forget()
		})
	}
	return value, lost, err
}

// holdsFewTokens says whether the connection may stay open with its calls: their tokens are missing for other calls.
func (c *conn) holdsFewTokens() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tokens < pipelined/4
}
