package tfdiag

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
)

// LimitError is the cause of a context that ended because the user's timeout expired.
type LimitError struct {
	// Attribute is the path of the attribute that sets the timeout. After is the timeout.
	Attribute string
	After     time.Duration
}

// Limited returns a context that ends after that time. Its cause then names the attribute that limits it.
func Limited(ctx context.Context, attribute string, after time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, after, &LimitError{attribute, after})
}

// LimitedBy returns a context for an operation ("create", "update", "delete") that ends when the operation's limit in
// timeouts is reached. limit returns this limit: it is the method Create, Update or Delete of a timeouts.Value.
func LimitedBy(
	ctx context.Context, operation string, limit func(context.Context, time.Duration) (time.Duration, diag.Diagnostics),
	byDefault time.Duration, diags *diag.Diagnostics,
) (context.Context, context.CancelFunc) {
	after, more := limit(ctx, byDefault)
	diags.Append(more...)
	return Limited(ctx, "timeouts."+operation, after)
}

// Error implements error.
func (e *LimitError) Error() string {
	return fmt.Sprintf("the limit of %s, which is %s, was reached", e.Attribute, e.After)
}

// Is makes a LimitError match context.DeadlineExceeded.
func (e *LimitError) Is(target error) bool { return target == context.DeadlineExceeded }

// remedy says how to continue.
func (e *LimitError) remedy() string {
	return "If the operation is only slow, raise " + e.Attribute + ". If the host doesn't answer, check that it is up. " +
		"Apply again to continue: finished work is recognized."
}

// remedyOfCopy says how to continue after a new disk that wasn't complete in time.
func (e *LimitError) remedyOfCopy() string {
	return "If the disk only takes long, raise " + e.Attribute + " to more than twice that time, and apply again: the " +
		"next apply waits until libvirt has ended what it still makes of this disk, and then makes all of the disk " +
		"again. If the host doesn't answer, check that it is up."
}

// cleaningUp is the time after a limit that isn't mentioned.
const cleaningUp = 5 * time.Second

// overrunText describes the time after the limit, if it was long.
func (e *LimitError) overrunText(elapsedInAll time.Duration) string {
	if elapsedInAll < e.After+cleaningUp {
		return ""
	}
	return fmt.Sprintf("What had begun was then broken off and cleaned up, which took %s",
		roundElapsed(elapsedInAll-e.After))
}
