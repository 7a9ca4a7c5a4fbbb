package ssh

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	// handshakesAtOnce is how many connections to one server may log in at the same time. From ten on OpenSSH drops
	// connections at random (MaxStartups), counting those of all users.
	handshakesAtOnce = 4
	// droppedRetries is the number of retries after a server drops a connection silently. droppedDelay is the delay before
	// the first retry; it doubles with each retry.
	droppedRetries = 6
	droppedDelay   = 200 * time.Millisecond
)

// ErrDropped means that a server accepted the connection, and closed it before it presented its key. It is
// ErrUnreachable as well.
var ErrDropped = errors.New("the server closed the connection without a word, as sshd does above its MaxStartups")

// handshakes holds, by server address, a token for each connection that is being made.
var handshakes sync.Map

// limitHandshakes waits until one more connection to a server may be made.
func limitHandshakes(ctx context.Context, server string) (release func(), err error) {
	value, _ := handshakes.LoadOrStore(server, make(chan struct{}, handshakesAtOnce))
	tokens, ok := value.(chan struct{})
	if !ok {
		return nil, errors.New("handshakes holds something else than tokens")
	}
	select {
	case tokens <- struct{}{}:
		return func() { <-tokens }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// retryDropped retries when a server drops the connection silently, after pauses of random length, so that clients that
// were dropped together don't come back together.
func retryDropped[T any](ctx context.Context, connect func() (T, error)) (T, error) {
	delay := droppedDelay
	for try := 0; ; try++ {
		made, err := connect()
		if !errors.Is(err, ErrDropped) || try == droppedRetries {
			return made, err
		}
		pause := time.NewTimer(delay/2 + rand.N(delay)) //nolint:gosec // Nothing to be guessed.
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return made, err
		}
		delay *= 2
	}
}
