package libvirt

import (
	"context"
	"errors"
	"testing"
	"time"
)

// A call that was given up says why: for what reason, where there is one, and not as well that it was cancelled. Who
// asks whether the host has refused is told all the same that the caller left.
func TestContextCause(t *testing.T) {
	t.Parallel()
	lost := errors.New("the lease was lost")
	stopped, stop := context.WithCancelCause(t.Context())
	stop(lost)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	late, end := context.WithTimeout(t.Context(), -time.Second)
	defer end()
	for name, tt := range map[string]struct {
		ctx  context.Context //nolint:containedctx // the case
		text string
		is   []error
	}{
		"a lost lease": {stopped, "the lease was lost", []error{lost, context.Canceled}},
		"a user":       {cancelled, "context canceled", []error{context.Canceled}},
		"a deadline":   {late, "context deadline exceeded", []error{context.DeadlineExceeded}},
	} {
		err := contextCause(tt.ctx)
		if err.Error() != tt.text {
			t.Errorf("%s: %v; want %s", name, err, tt.text)
		}
		for _, is := range tt.is {
			if !errors.Is(err, is) {
				t.Errorf("%s: %v is not %v", name, err, is)
			}
		}
	}
}
