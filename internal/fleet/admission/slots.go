package admission

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

// Slots limits the number of concurrent tries. They start in the order in which they were requested. A step that waits
// for its next try has no slot, so that a step that fails repeatedly doesn't delay others. A nil *Slots has no limit.
type Slots struct{ free *semaphore.Weighted }

// NewSlots returns slots for that many concurrent tries.
func NewSlots(atOnce int) *Slots { return &Slots{free: semaphore.NewWeighted(int64(atOnce))} }

// Enter waits for a slot. leave releases it.
func (s *Slots) Enter(ctx context.Context) (leave func(), err error) {
	if s == nil {
		return func() {}, nil
	}

	if err := s.free.Acquire(ctx, 1); err != nil {
		return nil, context.Cause(ctx)
	}

	return sync.OnceFunc(func() { s.free.Release(1) }), nil
}
