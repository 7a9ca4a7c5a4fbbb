package fleet

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
)

// openFleet is a fleet that is closed when the test is over.
func openFleet(t *testing.T, cfg Config) *Fleet {
	t.Helper()

	cfg.Logger = slog.New(&overheard{})

	f, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Errorf("closing the fleet: %v", err)
		}
	})

	return f
}

// overheard is the log of a fleet that a test may listen to, see listen.
type overheard struct{ listener atomic.Pointer[onLog] }

func (o *overheard) Enabled(context.Context, slog.Level) bool { return o.listener.Load() != nil }

func (o *overheard) Handle(ctx context.Context, r slog.Record) error {
	if l := o.listener.Load(); l != nil {
		return l.Handle(ctx, r)
	}

	return nil
}

func (o *overheard) WithAttrs([]slog.Attr) slog.Handler { return o }

func (o *overheard) WithGroup(string) slog.Handler { return o }

// onLog does something when a message is logged for the first time.
type onLog struct {
	message string
	do      func()
}

func (h *onLog) Handle(_ context.Context, r slog.Record) error {
	if r.Message == h.message && h.do != nil {
		do := h.do
		h.do = nil
		do()
	}

	return nil
}

// listen lets l hear what the fleet of openFleet logs from now on.
func listen(f *Fleet, l *onLog) {
	if o, ok := f.Logger().Handler().(*overheard); ok {
		o.listener.Store(l)
	}
}
