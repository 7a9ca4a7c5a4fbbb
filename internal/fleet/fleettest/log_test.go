package fleettest

import (
	"context"
	"log/slog"
	"runtime"
	"testing"
	"time"
)

// What a listener does may end its goroutine, as Fatal does. What was logged continues nevertheless.
func TestOnLog_endsItsGoroutine(t *testing.T) {
	t.Parallel()

	l := &OnLog{Message: "it begins", Do: runtime.Goexit}
	continued := make(chan struct{})

	go func() {
		_ = l.Handle(context.Background(), slog.Record{Message: "it begins"})

		close(continued)
	}()

	select {
	case <-continued:
	case <-time.After(20 * time.Second):
		t.Error("who logged doesn't continue")
	}
}
