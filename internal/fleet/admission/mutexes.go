package admission

import (
	"context"
	"sync"
)

// Mutexes is a mutex per key whose waiting can be cancelled. Within one run it spares the hosts the polling for a lock
// that we hold ourselves.
type Mutexes struct {
	mu   sync.Mutex
	held map[string]chan struct{}
}

// Lock waits until no other caller has the key. unlock, to be called once, gives it back.
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
