package admission

import (
	"context"
	"sync"
)

// Mutexes has a mutex for each key. Waiting for a mutex can be cancelled. Within one run, it avoids polling the hosts
// for a lock that the run itself holds.
type Mutexes struct {
	mu   sync.Mutex
	held map[string]chan struct{}
}

// Lock waits until no other caller has the key. The caller calls unlock once to release it.
func (m *Mutexes) Lock(ctx context.Context, key string) (unlock func(), err error) {
	for {
		unlock, other := m.TryLock(key)
		if unlock != nil {
			return unlock, nil
		}

		select {
		case <-other:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// TryLock is Lock without waiting. If another caller has the key, unlock is nil, and released is closed when that
// caller releases the key.
func (m *Mutexes) TryLock(key string) (unlock func(), released <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()

	if other, taken := m.held[key]; taken {
		return nil, other
	}

	if m.held == nil {
		m.held = make(map[string]chan struct{})
	}

	mine := make(chan struct{})
	m.held[key] = mine

	return func() {
		m.mu.Lock()
		delete(m.held, key)
		m.mu.Unlock()
		close(mine)
	}, nil
}
