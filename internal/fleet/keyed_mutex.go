package fleet

import (
	"context"
	"sync"
)

// keyedMutex is a mutex per key whose waiting can be cancelled. Within one run
// it spares the hosts the polling for a lock that we hold ourselves.
type keyedMutex struct {
	mu   sync.Mutex
	held map[string]chan struct{}
}

func (m *keyedMutex) lock(ctx context.Context, key string) (unlock func(), err error) {
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
