package lease

import (
	"context"
	"sync"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/admission"
)

// sharing has the leases that several operations of this run hold together.
type sharing struct {
	// joining makes operations wait while the first one takes the lease, by host and name.
	joining admission.Mutexes

	mu     sync.Mutex
	leases map[string]*sharedLease // by host and name
}

// sharedLease is a lease that users operations hold.
type sharedLease struct {
	*Held

	users int
}

// TakeShared is Take for operations that may run at the same time if they are of one run. The first one takes the
// lease, others that come before it is released share it, and the last one releases it. Take waits for all of them.
func (k *Keeper) TakeShared(
	ctx context.Context, on Store, name, purpose string,
) (held context.Context, release func(), err error) {
	key := keyOf(on, name)

	unlock, err := k.shared.joining.Lock(ctx, key)
	if err != nil {
		return nil, nil, err
	}
	defer unlock()

	l := k.shared.join(key)
	if l == nil {
		_, own, err := k.Take(ctx, on, name, purpose)
		if err != nil {
			return nil, nil, err
		}

		l = k.shared.begin(key, own)
	}

	held, end := l.With(ctx)

	return held, sync.OnceFunc(func() {
		end()
		k.shared.leave(key, l)
	}), nil
}

// join returns the lease if operations hold it. A lost one isn't joined: who holds it releases it soon.
func (s *sharing) join(key string) *sharedLease {
	s.mu.Lock()
	defer s.mu.Unlock()

	l := s.leases[key]
	if l == nil || l.lost.Err() != nil {
		return nil
	}

	l.users++

	return l
}

// begin lets others join a lease that was taken.
func (s *sharing) begin(key string, held *Held) *sharedLease {
	s.mu.Lock()
	defer s.mu.Unlock()

	if s.leases == nil {
		s.leases = map[string]*sharedLease{}
	}

	l := &sharedLease{Held: held, users: 1}
	s.leases[key] = l

	return l
}

// leave releases the lease if no other operation holds it.
func (s *sharing) leave(key string, l *sharedLease) {
	s.mu.Lock()

	l.users--

	last := l.users == 0
	if last && s.leases[key] == l {
		delete(s.leases, key)
	}

	s.mu.Unlock()

	if last {
		l.Release()
	}
}
