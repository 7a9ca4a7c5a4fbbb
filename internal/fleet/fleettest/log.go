package fleettest

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
)

// OnLog does something when a message is logged for the first time.
type OnLog struct {
	Message string
	Do      func()

	mu sync.Mutex
}

// Listen lets l hear what the fleet, which Open opened, logs from now on.
func Listen(f Fleet, l *OnLog) {
	if o, ok := f.Logger().Handler().(*overheard); ok {
		o.listener.Store(l)
	}
}

// overheard is the log of a fleet that a test may listen to.
type overheard struct{ listener atomic.Pointer[OnLog] }

func (o *overheard) Enabled(context.Context, slog.Level) bool { return o.listener.Load() != nil }

func (o *overheard) Handle(ctx context.Context, r slog.Record) error {
	if l := o.listener.Load(); l != nil {
		return l.Handle(ctx, r)
	}

	return nil
}

func (o *overheard) WithAttrs([]slog.Attr) slog.Handler { return o }

func (o *overheard) WithGroup(string) slog.Handler { return o }

// Handle implements slog.Handler's.
func (h *OnLog) Handle(_ context.Context, r slog.Record) error {
	if r.Message != h.Message {
		return nil
	}

	h.mu.Lock()
	do := h.Do
	h.Do = nil
	h.mu.Unlock()

	if do != nil { // It may log, too.
		do()
	}

	return nil
}
