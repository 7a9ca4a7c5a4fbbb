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
