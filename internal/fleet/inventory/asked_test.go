package inventory

import (
	"context"
	"errors"
	"testing"
)

// TestAsked_hangingHost: a host that hangs holds up no caller for longer than its own context lasts. If the one who
// asks it is cancelled, another one who waits asks it again. The answer is kept, and an error isn't.
func TestAsked_hangingHost(t *testing.T) {
	t.Parallel()

	var a asked[string]

	hangs := func(asking chan<- struct{}) func(context.Context) (string, error) {
		return func(ctx context.Context) (string, error) {
			close(asking)
			<-ctx.Done()

			return "", ctx.Err()
		}
	}
	never := func(context.Context) (string, error) {
		t.Error("the host is asked twice at once")

		return "", nil
	}

	first, cancelFirst := context.WithCancel(t.Context())
	asking, ended := make(chan struct{}), make(chan error, 1)

	go func() {
		_, err := a.get(first, "dir", hangs(asking))
		ended <- err
	}()

	<-asking

	// One who leaves doesn't wait for the host.
	left, cancelLeft := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	cancelLeft(why)

	if _, err := a.get(left, "dir", never); !errors.Is(err, why) {
		t.Errorf("one who left gets %v", err)
	}

	// Another question isn't held up.
	if got, err := a.get(t.Context(), "other", func(context.Context) (string, error) { return "b", nil }); got != "b" ||
		err != nil {
		t.Errorf("another question has the answer %q, %v", got, err)
	}

	// The one who waits asks when the first is cancelled.
	got := make(chan string, 1)

	go func() {
		value, _ := a.get(t.Context(), "dir", func(context.Context) (string, error) { return "a", nil })
		got <- value
	}()

	cancelFirst()

	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the first gets %v", err)
	}

	if value := <-got; value != "a" {
		t.Errorf("the one who waits gets %q", value)
	}

	if value, err := a.get(t.Context(), "dir", never); value != "a" || err != nil {
		t.Errorf("a later one gets %q, %v", value, err)
	}

	// An error is an answer only to those who wait for it.
	failed := errors.New("down")
	fails := func(context.Context) (string, error) { return "", failed }

	if _, err := a.get(t.Context(), "error", fails); !errors.Is(err, failed) {
		t.Errorf("the error is %v", err)
	}

	if value, _ := a.get(t.Context(), "error", func(context.Context) (string, error) { return "c", nil }); value != "c" {
		t.Errorf("after an error, the answer is %q", value)
	}
}
