package inventory

import (
	"context"
	"errors"
	"sync"
	"time"
)

// silenceMemory is how long an operation takes a host to be silent that was so when it was asked first.
const silenceMemory = time.Minute

// silenceKey is where a context has the silence of its operation.
type silenceKey struct{}

// silence is which hosts didn't answer the first question of an operation. They aren't asked again for a while: each
// question would take as long as a connection that doesn't come about. A host that answered is always asked.
type silence struct {
	mu    sync.Mutex
	hosts map[*Host]lastAnswer
}

// lastAnswer is what came of the last question to a host.
type lastAnswer struct {
	at  time.Time
	err error // nil: it answered
}

// AsOneOperation returns a context in which silent hosts are remembered, unless ctx is one.
func AsOneOperation(ctx context.Context) context.Context {
	if _, is := ctx.Value(silenceKey{}).(*silence); is {
		return ctx
	}

	return context.WithValue(ctx, silenceKey{}, &silence{hosts: make(map[*Host]lastAnswer)})
}

// silentIn returns why the host isn't asked, nil if it is to be.
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

// noteAnswer remembers whether the host has answered. One that did once isn't taken to be silent any more in this
// operation, which may be about to change it.
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
