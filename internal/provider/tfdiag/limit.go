package tfdiag

import (
	"context"
	"fmt"
	"time"
)

// LimitError is why a context ended: the user gave no more time.
type LimitError struct {
	// Attribute is the path of the attribute that says how long, After how long that is.
	Attribute string
	After     time.Duration
}

// Limited returns a context that ends after that time, and whose cause then says which attribute limits it.
func Limited(ctx context.Context, attribute string, after time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, after, &LimitError{attribute, after})
}

// Error implements error.
func (e *LimitError) Error() string {
	return fmt.Sprintf("the limit of %s, which is %s, was reached", e.Attribute, e.After)
}

// Is says that a deadline was exceeded.
func (e *LimitError) Is(target error) bool { return target == context.DeadlineExceeded }

// cleaningUp is what goes unmentioned of the time after a limit.
const cleaningUp = 5 * time.Second

// overrunText says what was done after the limit, where that took long.
func (e *LimitError) overrunText(elapsedInAll time.Duration) string {
	if elapsedInAll < e.After+cleaningUp {
		return ""
	}
	return fmt.Sprintf("What had begun was then broken off and cleaned up, which took %s",
		roundElapsed(elapsedInAll-e.After))
}
