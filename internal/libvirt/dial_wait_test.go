package libvirt

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"
)

// The limit of a question doesn't count while a login waits for a user: the answer of the login decides.
func TestCall_waitsForTheLogin(t *testing.T) {
	t.Parallel()

	asked, touched := make(chan struct{}), make(chan struct{})

	login := func(context.Context, string) (net.Conn, error) {
		close(asked)
		<-touched

		return nil, fmt.Errorf("%w: the key was touched", ErrDenied)
	}

	h, err := Open(Config{Name: "kvm1", URI: "qemu+ssh://kvm1/system", Dial: login})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })

	answer := make(chan error, 1)

	go func() {
		question := readCall("asking")
		question.timeout = time.Nanosecond
		_, err := call(t.Context(), h, question, func(*conn) (struct{}, error) { return struct{}{}, nil })
		answer <- err
	}()

	<-asked

	select {
	case err := <-answer:
		t.Fatalf("before the login ended: %v", err)
	case <-time.After(100 * time.Millisecond): // Longer can only find more.
	}

	close(touched)

	if err := <-answer; !errors.Is(err, ErrDenied) {
		t.Errorf("%v, want what the login said", err)
	}
}

// The first attempt to connect to a silent host is waited for. Later calls return at once, and begin one attempt at a
// time. A call waits for that attempt once the memory of the first one has ended.
func TestCall_waitsForASilentHostOnce(t *testing.T) {
	t.Parallel()

	dials := make(chan chan error) // of each attempt, where it waits for its outcome
	h, err := Open(Config{Name: "kvm1", URI: "qemu+ssh://kvm1/system", Dial: func(
		ctx context.Context, _ string,
	) (net.Conn, error) {
		outcome := make(chan error)

		select {
		case dials <- outcome:
			return nil, <-outcome
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })

	ask := func(l lane) error {
		question := readCall("asking")
		question.lane = l

		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()

		_, err := call(ctx, h, question, func(*conn) (struct{}, error) { return struct{}{}, nil })

		return err
	}
	silence := fmt.Errorf("%w: no answer in time", ErrUnreachable)

	answers := make(chan error, 1)
	go func() { answers <- ask(quick) }()

	attempt := <-dials
	<-time.After(longWait)
	attempt <- silence

	if err := <-answers; !errors.Is(err, ErrUnreachable) {
		t.Fatalf("the first question: %v", err)
	}

	for _, l := range []lane{quick, slow, agents, quick} {
		if err := ask(l); !errors.Is(err, silence) {
			t.Errorf("a question of lane %d: %v, want the outcome of the first attempt", l, err)
		}
	}

	attempt = <-dials // The one that the questions have begun.

	select {
	case <-dials:
		t.Error("there are two attempts at a time")
	case <-time.After(100 * time.Millisecond): // Longer can only find more.
	}

	h.pool.mu.Lock()
	h.pool.vain.ended = time.Now().Add(-vainMemory)
	h.pool.mu.Unlock()

	go func() { answers <- ask(quick) }()

	select {
	case err := <-answers:
		t.Errorf("once the memory has ended: %v, want the outcome of the second attempt", err)
	case <-time.After(100 * time.Millisecond):
	}

	attempt <- fmt.Errorf("%w: wrong key", ErrDenied)

	if err := <-answers; !errors.Is(err, ErrDenied) {
		t.Errorf("%v, want the outcome of the second attempt", err)
	}
}
