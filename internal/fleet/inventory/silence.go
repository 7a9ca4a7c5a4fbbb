package inventory

import (
	"context"
	"errors"
	"sync"
	"time"
)

// silenceMemory is how long an operation considers a host unreachable that didn't answer its first query.
const silenceMemory = time.Minute

// silenceKey is the key of an operation's silence in its context.
type silenceKey struct{}

// silence records which hosts didn't answer the first query of an operation. They aren't queried again for a while,
// because each query would take as long as a failing connection attempt. A host that answered is always queried.
type silence struct {
	mu    sync.Mutex
	hosts map[*Host]lastAnswer
}

// lastAnswer is the result of the last query to a host.
type lastAnswer struct {
	at  time.Time
	err error // nil if it answered
}

// AsOneOperation returns a context in which unreachable hosts are remembered. A context that does so already is
// returned as it is.
func AsOneOperation(ctx context.Context) context.Context {
	if _, is := ctx.Value(silenceKey{}).(*silence); is {
		return ctx
	}

	return context.WithValue(ctx, silenceKey{}, &silence{hosts: make(map[*Host]lastAnswer)})
}

// silentIn returns why the host isn't queried, or nil if it is to be.
func silentIn(ctx context.Context, h *Host) error {
	s, is := ctx.Value(silenceKey{}).(*silence)
	if !is {
		return nil
	}

	s.mu.Lock()
	defer s.mu.Unlock()

	if last := s.hosts[h]; last.err != nil && time.Since(last.at) < silenceMemory {
		return last.err
	}

	return nil
}

// IsSilent reports whether the host isn't queried in this operation, because it didn't answer before.
func (h *Host) IsSilent(ctx context.Context) bool { return silentIn(ctx, h) != nil }

// noteAnswer remembers whether the host answered. A host that answered once isn't considered unreachable for the rest
// of this operation, which may be about to change it.
func noteAnswer(ctx context.Context, h *Host, err error) {
	s, is := ctx.Value(silenceKey{}).(*silence)
	if !is || ctx.Err() != nil || err != nil && !errors.Is(err, ErrUnreachable) {
		return
	}

	s.mu.Lock()
	defer s.mu.Unlock()

	if last, asked := s.hosts[h]; !asked || last.err != nil {
		s.hosts[h] = lastAnswer{at: time.Now(), err: err}
	}
}
