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
		m.mu.Lock()

		other, taken := m.held[key]
		if !taken {
			if m.held == nil {
				m.held = make(map[string]chan struct{})
			}

			mine := make(chan struct{})
			m.held[key] = mine
			m.mu.Unlock()

			return func() {
				m.mu.Lock()
				delete(m.held, key)
				m.mu.Unlock()
				close(mine)
			}, nil
		}
		m.mu.Unlock()

		select {
		case <-other:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}
