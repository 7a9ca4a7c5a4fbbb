package fleettest

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
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

// overheard is the log of a fleet that a test may listen to. Its other handler writes it.
type overheard struct {
	slog.Handler
	listener *atomic.Pointer[OnLog]
}

// newLog is the log of a fleet. A failed test prints its end.
func newLog(t *testing.T) *slog.Logger {
	t.Helper()

	written := &tail{}

	t.Cleanup(func() {
		if said := written.String(); t.Failed() && said != "" {
			t.Logf("what the fleet logged last:\n%s", said)
		}
	})

	return slog.New(&overheard{slog.NewTextHandler(written, nil), &atomic.Pointer[OnLog]{}})
}

func (o *overheard) Enabled(ctx context.Context, l slog.Level) bool {
	return o.listener.Load() != nil || o.Handler.Enabled(ctx, l)
}

func (o *overheard) Handle(ctx context.Context, r slog.Record) error {
	var err error
	if o.Handler.Enabled(ctx, r.Level) {
		err = o.Handler.Handle(ctx, r)
	}

	if l := o.listener.Load(); l != nil {
		err = errors.Join(err, l.Handle(ctx, r))
	}

	return err
}

func (o *overheard) WithAttrs(with []slog.Attr) slog.Handler {
	return &overheard{o.Handler.WithAttrs(with), o.listener}
}

func (o *overheard) WithGroup(name string) slog.Handler {
	return &overheard{o.Handler.WithGroup(name), o.listener}
}

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

func (w *tail) Write(line []byte) (int, error) {
	const keeps = 6 << 10

	w.mu.Lock()
	defer w.mu.Unlock()

	w.text = append(w.text, line...)
	w.text = w.text[max(0, len(w.text)-keeps):]

	return len(line), nil
}

func (w *tail) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()

	return string(w.text)
}

// Handle implements slog.Handler's.
func (h *OnLog) Handle(_ context.Context, r slog.Record) error {
	if r.Message != h.Message {
		return nil
	}

	h.mu.Lock()
	do := h.Do
	h.Do = nil
	h.mu.Unlock()

	if do == nil {
		return nil
	}

	// It may log, too. It may also end its goroutine with Fatal: that must not be the one that logs, for whose work others
	// may wait.
	over := make(chan struct{})

	go func() {
		defer close(over)
		do()
	}()

	<-over

	return nil
}
